"""Limits that the tests of files share."""

from __future__ import annotations

import pytest

MIB = 1 << 20


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count files from two megabytes on as large, and send them in parts of one megabyte."""
    for module in ("loads", "upload", "download"):
        for name, value in (("BIG_BYTES", 2 * MIB), ("PART_BYTES", MIB), ("BATCH_BYTES", MIB)):
            monkeypatch.setattr(
                f"jupyter_slurm.transport.files.{module}.{name}",
                value,
                raising=module == "loads",
            )
