"""Ray's settings in a job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
CHECKS = "RAY_health_check_failure_threshold"


def test_ray_notices_a_silent_node_early_unless_the_user_sets_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(NODE))
    import launch_ray

    node: Any = SimpleNamespace(folder=str(tmp_path), index=0, secret=lambda _: "s")
    assert launch_ray.Ray(node).environment()[CHECKS] == "3"
    monkeypatch.setenv(CHECKS, "9")
    assert launch_ray.Ray(node).environment()[CHECKS] == "9"
