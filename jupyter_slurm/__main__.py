"""`python -m jupyter_slurm`: the command line, where its script is not on PATH."""

import sys

from jupyter_slurm.cli import main

sys.exit(main())
