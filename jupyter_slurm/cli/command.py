"""What a command of the command line is: types that its modules share, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_slurm.api import Api
from jupyter_slurm.commands.asked import Asked

Connect = Callable[[], Api]
"""Finds or starts the agent. Called by the commands that need it, and by no other."""

Command = Callable[[Asked, Connect], int]
"""What runs a command: its arguments -> its exit code."""
