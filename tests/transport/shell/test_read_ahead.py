"""Streams that are made ahead of their sending."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pytest

from jupyter_slurm.transport.shell import read_ahead as module
from jupyter_slurm.transport.shell.read_ahead import read_ahead


def test_chunks_come_whole_and_in_order() -> None:
    chunks = [b"%d" % number for number in range(10 * module._AHEAD)]
    with read_ahead(iter(chunks)) as ahead:
        assert list(ahead) == chunks


def test_a_few_are_made_before_they_are_asked_for_and_no_more() -> None:
    made: list[int] = []
    enough = threading.Event()

    def source() -> Iterator[bytes]:
        for number in range(10 * module._AHEAD):
            if len(made) == module._AHEAD - 1:
                enough.set()
            made.append(number)
            yield b"x"

    with read_ahead(source()):
        assert enough.wait(60)
    assert len(made) == module._AHEAD
    assert "read-ahead" not in {thread.name for thread in threading.enumerate()}


def test_what_making_them_raises_is_raised_after_what_was_made() -> None:
    def source() -> Iterator[bytes]:
        yield b"x"
        raise OSError("no")

    with read_ahead(source()) as ahead:
        chunks = iter(ahead)
        assert next(chunks) == b"x"
        with pytest.raises(OSError, match="no"):
            next(chunks)


def test_a_file_stays_the_file_that_it_is() -> None:
    file = io.BytesIO(b"x")
    with read_ahead(file) as ahead:
        assert ahead is file
