"""Printer of the states, and of the reasons that a card already shows, for wire.mjs."""

from __future__ import annotations

import json
import sys

from jupyter_slurm.wire import RAISED, SAID_BY_CARD, SAID_BY_STATE, JobState


def main() -> None:
    states = {
        one.value: {"word": one.word, "tone": one.tone, "final": one.final} for one in JobState
    }
    reasons = {
        "RAISED": RAISED,
        "SAID_BY_STATE": sorted(SAID_BY_STATE),
        "SAID_BY_CARD": SAID_BY_CARD,
    }
    sys.stdout.write(json.dumps({"STATES": states, **reasons}))


if __name__ == "__main__":
    main()
