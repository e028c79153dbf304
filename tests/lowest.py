"""Print the lower bounds of pyproject.toml as constraints for pip, for `scripts/dependencies`.

It covers dependencies, extras and front ends, but not the tools of the tests.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

FRONT_ENDS = ("jupyterlab", "notebook", "ipykernel", "nbclient")
_BOUND = re.compile(r"([\w-]+)>=([\d.]+)")


def lowest() -> list[str]:
    """Return a constraint for each dependency: its lowest version."""
    content = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    project, groups = content["project"], content["dependency-groups"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    tools = [one for group in groups.values() for one in group if isinstance(one, str)]
    bounds = [_BOUND.match(one) for one in (*project["dependencies"], *extras)]
    bounds += [one for one in map(_BOUND.match, tools) if one and one[1] in FRONT_ENDS]
    return [f"{one[1]}=={one[2]}" for one in bounds if one is not None]


if __name__ == "__main__":
    sys.stdout.write("\n".join([*lowest(), ""]))
