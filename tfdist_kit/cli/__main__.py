"""Where the command starts: ``tfdist``, or ``python -m tfdist_kit.cli``.

Until there are workers to look after, Ctrl-C simply ends the process. Python's own way, an
exception wherever the program happens to be, can be lost in the middle of an import.
"""

import signal


def start() -> None:
    """Set the signals right, and only then import the rest."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who starts us may ignore it; we wait for ours
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tfdist_kit.cli.main import entry_point

    entry_point()


if __name__ == "__main__":
    start()
