"""Frames and listings that are too large. They must be rejected without much memory."""

from __future__ import annotations

import resource
import socket
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import pytest

from jupyter_slurm.kernel.frames import NodeConnection
from jupyter_slurm.transport import limits
from jupyter_slurm.transport.files.manifest import TooManyError, parse_listing
from jupyter_slurm.transport.relay_streams import Streams

MIB = 1 << 20


def relayed(kind: bytes, number: int, body: bytes = b"") -> bytes:
    return struct.pack(">cII", kind, 4 + len(body), number) + body


@contextmanager
def little_memory(most_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


def test_decompression_bomb_from_a_kernel_is_rejected() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # After a full flush the same segment can be repeated.
    segment = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    bomb = segment * 300 + packer.flush()
    assert len(bomb) < MIB
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = NodeConnection(ours)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        frame = struct.pack(">cI", b"Z", len(bomb)) + bomb
        *some, last = (frame[at : at + (1 << 16)] for at in range(0, len(frame), 1 << 16))
        for piece in some:
            theirs.sendall(piece)
            assert line.receive() == []
        theirs.sendall(last)
        with pytest.raises(ValueError, match="a message of more than"):
            line.receive()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 * 1024


def test_relay_that_exceeds_its_window_is_closed() -> None:
    near, far = socket.socketpair()
    browser, carried = socket.socketpair()
    streams = Streams(near)
    with browser, closing(streams), far, ThreadPoolExecutor(1) as pool:
        opened = pool.submit(streams.open, carried, "127.0.0.1", 1)
        far.recv(100)
        far.sendall(relayed(b"K", 1))
        opened.result(60)
        frame = relayed(b"D", 1, bytes(32_768))
        with little_memory(16 * MIB), suppress(BrokenPipeError, ConnectionResetError):
            while True:  # without a reader
                far.sendall(frame)
        assert streams.reason == "it sent more than its credit"


def test_listing_of_millions_of_files_is_rejected_before_parsing() -> None:
    one = b"f\x00644\x000\x001.0\x00./a\0\0"
    said = b"folder\n" + one * (limits.OUTPUT_BYTES // len(one))
    with little_memory(3 * limits.OUTPUT_BYTES // 2), pytest.raises(TooManyError):
        parse_listing(said)
