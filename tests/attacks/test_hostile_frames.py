"""What takes frames, listings and archives apart is given 10,000 hostile byte strings, each in
pieces that are cut at random: only errors of its own come of it, and never much memory."""

from __future__ import annotations

import io
import random
import resource
import socket
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import pytest

from jupyter_slurm.errors import ForwardError
from jupyter_slurm.kernel import node_messages
from jupyter_slurm.kernel.frames import NUMBER, NodeLine, parts_of
from jupyter_slurm.transport import caps
from jupyter_slurm.transport.files import ustar
from jupyter_slurm.transport.files.manifest import TooManyError, parse_listing
from jupyter_slurm.transport.relay_streams import ConversationEndedError, Streams

COUNT = 10_000
MIB = 1 << 20
KINDS = b"KRDCEAXMZWTQLSB\n\0\xff"
SIZES = (0, 1, 4, 9, 255, 65_536, 1 << 20, (1 << 20) + 1, 1 << 28, (1 << 31) - 1, (1 << 32) - 1)


def hostile(count: int, seed: str, head: Callable[[random.Random], bytes]) -> Iterator[bytes]:
    """Frames with true and false sizes, garbage between them, whatever was cut off."""
    generator = random.Random(seed)
    for _ in range(count):
        said = b""
        for _ in range(generator.randint(1, 6)):
            said += generator.choice(
                (
                    head,
                    lambda known: head(known) + known.randbytes(known.randint(0, 64)),
                    lambda known: known.randbytes(known.randint(0, 40)),
                    lambda known: b"[" * known.randint(1, 400),
                    lambda known: bytes([known.randrange(256)]) * known.randint(1, 200),
                )
            )(generator)
        yield said[: generator.randint(1, len(said) or 1)]


def pieces(data: bytes, generator: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = generator.choice((1, 2, 3, 5, 9, 64, len(data)))
        yield data[at : at + size]
        at += max(1, size)


def short_head(known: random.Random) -> bytes:
    """A kind and a size, as of a kernel."""
    return struct.pack(">cI", bytes([known.choice(KINDS)]), known.choice(SIZES))


def relay_head(known: random.Random) -> bytes:
    number = known.choice((0, 1, 2, 0xFFFFFFFF))
    return short_head(known) + struct.pack(">I", number)


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


def test_frames_of_a_kernel() -> None:
    generator = random.Random("pieces")
    refused = 0
    with little_memory(16 * MIB):
        for said in hostile(COUNT, "kernel", short_head):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                line = NodeLine(ours)
                try:
                    for piece in pieces(said, generator):
                        theirs.sendall(piece)
                        for kind, body in line.receive() or ():
                            read(kind, body)
                except (ValueError, KeyError, struct.error, zlib.error):  # those of `Far`
                    refused += 1
    assert refused > COUNT // 10


def read(kind: bytes, body: bytes) -> None:
    """As `Far` does."""
    if kind == b"M":
        NUMBER.unpack_from(body)
        channel, parts = parts_of(body)
        if channel == "ours":
            node_messages.event(b"".join(parts))
    elif kind == b"K":
        NUMBER.unpack(body)
    elif kind == b"W":
        node_messages.welcome(body)


def test_a_kernels_message_that_unpacks_without_end_is_refused() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # After a full flush nothing refers to what was before: the same bytes unpack again and again.
    segment = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    bomb = segment * 300 + packer.flush()
    assert len(bomb) < MIB
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = NodeLine(ours)
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


@pytest.mark.parametrize("part", range(4))
def test_frames_of_a_relay(part: int) -> None:
    """Each string on a line of its own, of which a connection stands, or is asked for."""
    generator = random.Random(f"pieces {part}")
    with little_memory(32 * MIB), ThreadPoolExecutor(1) as pool:
        for said in hostile(COUNT // 4, f"relay {part}", relay_head):
            near, far = socket.socketpair()
            browser, carried = socket.socketpair()
            streams = Streams(near)
            with browser, closing(streams), far:
                opened = pool.submit(streams.open, carried, "127.0.0.1", 1)
                far.recv(100)  # it is asked for
                if generator.random() < 0.5:
                    far.sendall(relayed(b"K", 1))
                for piece in pieces(said, generator):
                    try:
                        far.sendall(piece)
                    except OSError:
                        break
                far.close()
                if opened.exception() is None:
                    assert ended(browser)
                else:
                    carried.close()
                    assert isinstance(opened.exception(), ConversationEndedError | ForwardError)


def ended(browser: socket.socket) -> bool:
    """Whatever came, the connection is closed in the end."""
    browser.settimeout(60)
    with suppress(ConnectionError):
        while browser.recv(1 << 16):
            pass
    return True


def test_a_relay_that_sends_more_than_it_may_is_left() -> None:
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
            while True:  # nobody reads what comes
                far.sendall(frame)
        assert streams.reason == "it sent more than it was allowed"


def test_a_relay_that_announces_four_gigabytes_is_left_with_a_reason() -> None:
    near, far = socket.socketpair()
    streams = Streams(near)
    with closing(streams), far, socket.socket() as unused:
        far.sendall(struct.pack(">cII", b"D", 0xFFFFFFFF, 1))
        assert far.recv(100) == b""
        with pytest.raises(ConversationEndedError, match="a frame of 4,294,967,295 bytes"):
            streams.open(unused, "127.0.0.1", 1)


def test_listings_of_a_folder() -> None:
    generator = random.Random("listings")
    words = (
        b"f",
        b"d",
        b"x",
        b"644",
        b"9" * 5000,
        b"-1",
        b"1.5",
        b"./a",
        b"..",
        b"",
        b"\xff",
        b"a",
    )
    refused = 0
    with little_memory(16 * MIB):
        for _ in range(COUNT):
            said = generator.choice((b"folder\n", b"file\n", b"none\n", b"")) + generator.choice(
                (b"printf\n", b"stat\n", b"")
            )
            separator = generator.choice((b"\0", b" ", b"//\n"))
            said += separator.join(generator.choices(words, k=generator.randint(0, 40)))
            try:
                parse_listing(said, said)
            except ValueError:
                refused += 1
    assert refused > COUNT // 10


@pytest.mark.parametrize("form", [b"printf", b"stat"])
def test_a_listing_of_millions_of_files_is_refused_before_it_is_taken_apart(form: bytes) -> None:
    one = b"f\x00644\x000\x001.0\x00./a\0\0" if form == b"printf" else b"81a4 0 1 ./a//\n"
    said = b"folder\n" + form + b"\n" + one * (caps.OUTPUT_BYTES // len(one))
    with little_memory(3 * caps.OUTPUT_BYTES // 2), pytest.raises(TooManyError):
        parse_listing(said)


def test_archives() -> None:
    generator = random.Random("archives")
    true = ustar.header(b"a" * 200, size_bytes=3) + ustar.padded(b"abc") + ustar.END
    refused = 0
    with little_memory(16 * MIB):
        for _ in range(COUNT):
            said = bytearray(true)
            for _ in range(generator.randint(1, 8)):
                said[generator.randrange(len(said))] = generator.randrange(256)
            block = bytes(said[: generator.randint(1, len(said))])
            try:
                list(ustar.members(io.BytesIO(mended(block))))
            except ustar.DamagedError:
                refused += 1
    assert refused > COUNT // 10


def mended(archive: bytes) -> bytes:
    """With true sums in all whole blocks, so that more than the sum is looked at."""
    made = b""
    for at in range(0, len(archive), 512):
        block = archive[at : at + 512]
        if len(block) == 512 and block.strip(b"\0"):
            blank = block[:148] + b" " * 8 + block[156:]
            block = b"%b%06o\0 %b" % (block[:148], sum(blank), block[156:])
        made += block
    return made


def test_a_record_of_an_archive_whose_length_is_longer_than_any_number_is_damaged() -> None:
    text = b"9" * 5_000 + b" path=a\n"
    archive = ustar.header(b"pax", size_bytes=len(text), kind=b"x") + ustar.padded(text)
    with pytest.raises(ustar.DamagedError, match="not understood"):
        list(ustar.members(io.BytesIO(archive + ustar.END)))


def test_a_name_of_an_archive_that_is_larger_than_any_is_not_read() -> None:
    head = ustar.header(b"././@LongLink", size_bytes=1 << 30, kind=b"L")
    with pytest.raises(ustar.DamagedError, match="longer than any"):
        list(ustar.members(io.BytesIO(head)))
