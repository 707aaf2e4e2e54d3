"""`python -m sapwood`, and the command `sapwood`."""

import gc
import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Load the command line and run it; Ctrl-C ends the process quietly until it is loaded."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # Modules that are loaded stay: looking for garbage among them takes a tenth of the time.
    gc.disable()
    from sapwood.cli.main import run_command_line

    gc.freeze()
    gc.enable()
    run_command_line()


if __name__ == "__main__":
    main()
