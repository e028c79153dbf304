"""Frames in pieces, their maximum size, and text after the last frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.wire.framing import GarbledError, Inbox, frame

bodies = st.lists(st.tuples(st.sampled_from([b"A", b"D", b"M"]), st.binary(max_size=40)))


@given(bodies, st.integers(1, 50))
def test_frames_are_read_from_pieces(sent: list[tuple[bytes, bytes]], piece: int) -> None:
    data = b"".join(frame(kind, body[:3], body[3:]) for kind, body in sent)
    inbox = Inbox(40)
    found: list[tuple[bytes, bytes]] = []
    for at in range(0, len(data), piece):
        found += inbox.take(data[at : at + piece])
    assert found == sent
    assert not inbox.partial
    assert not inbox.ended


def test_too_large_frame_is_rejected_at_its_header() -> None:
    inbox = Inbox(2, {b"M": 3})
    assert len(list(inbox.take(frame(b"D", b"12") + frame(b"M", b"123")))) == 2
    with pytest.raises(GarbledError, match="a frame of 3 bytes, more than 2"):
        list(inbox.take(frame(b"D", b"123")[:5]))
    with pytest.raises(GarbledError, match="a frame of 4,294,967,295 bytes, more than 3"):
        list(Inbox(2, {b"M": 3}).take(b"M\xff\xff\xff\xff"))


def test_output_of_srun_after_the_last_frame_is_ignored() -> None:
    inbox = Inbox(10)
    said = frame(b"X", b"1") + b"\n0123456789abcdefsrun: error: the node has failed"
    assert list(inbox.take(said)) == [(b"X", b"1")]
    assert inbox.ended
    assert not inbox.partial
    assert list(inbox.take(frame(b"D", b"1"))) == []
