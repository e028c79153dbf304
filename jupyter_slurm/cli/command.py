"""The types that the modules of the command line share, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_slurm.api import Api
from jupyter_slurm.commands.arguments import Arguments

Connect = Callable[[], Api]
"""Finds or starts the agent. Only the commands that need the agent call it."""

Command = Callable[[Arguments, Connect], int]
"""Runs a command: its arguments -> its exit code."""
