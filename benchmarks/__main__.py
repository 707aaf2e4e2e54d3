"""`python -m benchmarks` is `python benchmarks/run_all.py`."""

import sys

from benchmarks.run_all import main

sys.exit(main())
