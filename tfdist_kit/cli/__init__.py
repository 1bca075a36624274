"""The command line: one module per sub-command, each with ``add_parser``."""
