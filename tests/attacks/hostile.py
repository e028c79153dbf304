"""Hostile bytes: valid samples, corrupted by a generator with a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_SHOWN = "\u202e \u2066 \u200f \u2028 \ufeff \U0001f600 \u00b2 \u0967 e\u0301 \ud83d \udce9".split()
_ROW = b"\x1e\n1\x1f1\x1f1\x1fN/A\x1fRUNNING"
_RECORD = b"JobId=1 JobName=owned UserId=root(0) GroupId=root(0) JobState=RUNNING"
PIECES: tuple[bytes, ...] = (
    *(bytes([one]) for one in range(256)),
    *(text.encode("utf-8", "surrogatepass") for text in _SHOWN),
    *(b"\x1b[31m", b"\x1b]0;owned\x07", b"\x1bc", b"\x9b2J", b"\r\x1b[2K", b"\xff\xfe"),
    *(b"\\udce9", b"\\u0000", b"\\u001b[31m", b"\\ud83d", b"\\x1e", b"%s%n", b"{0.__class__}"),
    *(b"9" * 10_000, b"9" * 400, b"-1", b"1e999", b"1e308", b"-0", b"NaN", b"Infinity", b"0x10"),
    *(b"1.2.3G", b"9" * 18, b"9223372036854775808", b"18446744073709551616", b"1_000", b"99999"),
    *(b"99999-12-31T23:59:59", b"9999-12-31T23:59:59", b"0001-01-01T00:00:00", b"253402300800"),
    *(b"gpu[1-999999999]", b"n[1-9999][1-9999]", b"[" * 300, b"]" * 300, b"n[[1]]", b"n[1-"),
    *(b"[[[[" * 2_000, b'{"a":' * 3_000, b'[{"a":' * 500 + b"1" + b"}]" * 500, b"(" * 500),
    *(b"gpu:a100:" + b"9" * 12, b"gres/gpu=" + b"9" * 20, b"gpu:\xc2\xb2", b"mem=" + b"9" * 300),
    *(b"RUNNING", b"CANCELLED by " + b"9" * 5_000, b"(null)", b"N/A", b"UNLIMITED", b"None"),
    *(_ROW, b"\n" + _RECORD, b"JobState=FAILED", b"\x1f" * 30, b"\x1e" * 30, b"|" * 30, b"\n" * 30),
    *(b"A" * 4_000, b"gpu:" + b"a" * 5_000, b",," * 2_000, b" SLUID=x" * 99, b" UserId=((" * 99),
    *(b"<script>alert(1)</script>", b"-oProxyCommand=id", b"$(id)", b"../../etc", b"\0", b"\x85"),
    *(b"true", b"null", b'""', b"[]", b"{}", *(one.encode() for one in '"\\:,=/-+*')),
)


def spoilt(seed: str, samples: Sequence[bytes], count: int) -> Iterator[bytes]:
    """Yield `count` texts, each a sample with a few changed bytes."""
    generator = random.Random(seed)
    for _ in range(count):
        text = generator.choice(samples)
        for _ in range(generator.choice((1, 1, 1, 2, 3, 8))):
            text = _spoilt_once(generator, text)
        yield text


def _spoilt_once(generator: random.Random, text: bytes) -> bytes:
    start = generator.randint(0, len(text))
    end = min(len(text), start + generator.choice((0, 0, 1, 1, 4, 16, 200)))
    how = generator.random()
    if how < 0.70:
        return text[:start] + generator.choice(PIECES) + text[end:]
    if how < 0.80:
        return text[:start] + text[end:]
    if how < 0.88:
        return text[:end] + text[start:]
    if how < 0.94:
        return text[:start]
    return generator.randbytes(generator.randint(0, 200))
