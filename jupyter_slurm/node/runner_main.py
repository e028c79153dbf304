"""Starts the supervisor of a cell, `runner.py`.

    python3 -u runner_main.py JOBDIR ATTEMPT

Runs on the cluster, standard library only. Python compiles the file that it is started with each
time, and imports any other as the bytecode that lies beside it, so this one is short: 4 ms of every
job. The supervisor runs no code of the user's, so nothing has to be tidied at its end: 3 ms.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `python -P` leaves it out
import runner  # noqa: E402 - found by the line above

os._exit(runner.main(sys.argv))
