"""Prints each state with its word, how it goes and whether it is an end, for wire.mjs."""

from __future__ import annotations

import json
import sys

from jupyter_slurm.wire import JobState


def main() -> None:
    states = {
        one.value: {"word": one.word, "tone": one.tone, "final": one.final} for one in JobState
    }
    sys.stdout.write(json.dumps(states))


if __name__ == "__main__":
    main()
