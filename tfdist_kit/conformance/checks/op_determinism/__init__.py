"""Checks of what the page of enable_op_determinism says."""
