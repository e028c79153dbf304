"""The line of a recipe at which a tool stopped. The logs are of the real tools, those of BuildKit
and podman by their sources."""

from __future__ import annotations

import pytest

from jupyter_slurm.containers.making.stopped import stopped_at


@pytest.mark.parametrize(
    "log",
    [
        "Step 4/6 : RUN ls /y\n ---> 33f5fb2b92ff\nStep 5/6 : RUN ls /x\n ---> Running in b3a6\n"
        "\x1b[91mls: \x1b[0mcannot\n\x1b[0mThe command '/bin/sh -c ls' returned a non-zero code: 2",
        "STEP 2/3: RUN ls /x\nError: building at STEP",
        "------\n > [stage-0 2/3] RUN ls /x:\n0.1 ls: cannot access",
        "  1. FROM base\n  2. ENV A='1'\n  6. RUN.F ls /x\nls: cannot access\nerror: build failed",
    ],
)
def test_it_is_the_last_that_the_tool_shows(log: str) -> None:
    assert stopped_at(log) == "RUN ls /x"


def test_a_line_of_a_definition_is_traced_by_its_shell() -> None:
    assert stopped_at("+ echo fine\nfine\n+ ls /x\nls: cannot\nFATAL:   While") == "ls /x"
    assert stopped_at("  4  COPY --from=one ['/x'] -> /y\nerror: source file not found: /x") == (
        "COPY --from=one ['/x'] -> /y"
    )


@pytest.mark.parametrize("log", ["", "no such luck"])
def test_what_no_line_of_the_recipe_shows_is_not_guessed(log: str) -> None:
    assert stopped_at(log) is None
