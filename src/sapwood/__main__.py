"""`python -m sapwood`, and the command `sapwood`."""

import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Load the command line and run it; Ctrl-C ends the process quietly until it is loaded."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from sapwood.cli.main import run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
