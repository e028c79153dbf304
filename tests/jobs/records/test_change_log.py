"""Changes since a revision, and cursors."""

from __future__ import annotations

import pytest

from jupyter_slurm.jobs.records import change_log
from jupyter_slurm.jobs.records.change_log import ChangeLog, Cursors


@pytest.fixture
def letters() -> ChangeLog[int]:
    """Return letters with the revisions of their changes."""
    letters = ChangeLog[int](lambda revision: revision)
    for revision, letter in enumerate("abc", 1):
        letters.put(letter, revision)
    return letters


def test_cursor_round_trips_its_revision_and_digest() -> None:
    cursors = Cursors(7)
    assert cursors.read(cursors.cursor(7)) == (7, "")
    assert cursors.read(cursors.cursor(3, "digest")) == (3, "digest")


@pytest.mark.parametrize("revision", ["", "x", "-1", "8", "9" * 5000, "²"])
def test_cursor_with_an_unknown_revision_starts_over(revision: str) -> None:
    cursors = Cursors(7)
    epoch, _, _ = cursors.cursor(7).partition(".")
    assert cursors.read(f"{epoch}.{revision}") == (None, "")


def test_cursor_of_another_agent_starts_over() -> None:
    assert Cursors(7).read(Cursors(7).cursor(7)) == (None, "")


def test_changes_are_ordered_and_removals_are_reported_once(
    letters: ChangeLog[int],
) -> None:
    letters.put("a", 4)
    letters.remove("b", 5)
    letters.put("b", 6)
    letters.remove("b", 7)
    letters.remove("c", 8)
    assert letters.since(2) == (False, (4,), ("c", "b"))
    assert letters.since(8) == (False, (), ())
    assert letters.since(None) == (True, (4,), ())


def test_restored_key_is_not_reported_as_removed(letters: ChangeLog[int]) -> None:
    letters.remove("a", 4)
    letters.put("a", 5)
    assert letters.since(3) == (False, (5,), ())


def test_outdated_revision_gets_all_values(
    letters: ChangeLog[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "_GONE_KEPT", 1)
    letters.remove("a", 4)
    assert letters.since(3) == (False, (), ("a",))
    letters.remove("b", 5)
    assert letters.since(3) == (True, (3,), ())
    assert letters.since(4) == (False, (), ("b",))
