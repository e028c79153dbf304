"""The command line as `python -m jupyter_slurm`, for users whose PATH lacks its script."""

import sys

from jupyter_slurm.cli import main

sys.exit(main())
