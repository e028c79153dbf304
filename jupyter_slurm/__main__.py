"""The command line as `python -m jupyter_slurm`, for users whose PATH lacks `jupyter-slurm`."""

import sys

from jupyter_slurm.cli import main

sys.exit(main())
