"""Labs and kernels on a node: `scripts/bench lab`, then `scripts/bench kernel`.

    scripts/bench remote

Both run with their defaults. Run them separately to give options.
"""

from __future__ import annotations

import argparse
import sys

from tests.benchmarks import kernel, lab


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    return max(lab.main(), kernel.main())


if __name__ == "__main__":
    sys.exit(main())
