"""What torchrun's program on a node does beside torchrun; PyTorch is not needed for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
HIT_IN_A_FINALIZER = f"""
import os, signal, sys
sys.path.insert(0, {str(NODE)!r})
import launch_torchrun

class Told(Exception):
    sigval = signal.SIGTERM

def tell(*_):
    raise Told

class Hit:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        [one for one in range(100)]

signal.signal(signal.SIGTERM, tell)
launch_torchrun.lose_no_signal(Told)
try:
    Hit()
    signal.pause()
except Told:
    print("told")
"""


def test_a_signal_that_comes_while_an_object_is_finalized_ends_torchrun_all_the_same() -> None:
    words = [sys.executable, "-c", HIT_IN_A_FINALIZER]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("told\n", "")
