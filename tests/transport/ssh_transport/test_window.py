"""Receiving windows by arithmetic: a line of a certain delay and rate, simulated."""

from __future__ import annotations

import pytest
from paramiko.ssh_exception import SSHException

from jupyter_slurm.transport.ssh_transport.window import FIRST_BYTES, Pace, Window


def test_credit_is_given_back_in_parts_and_never_beyond_the_size() -> None:
    window = Window(800)
    assert window.take(100) == 0
    assert window.take(1) == 101
    assert [window.take(700), window.take(0)] == [700, 0]
    window.size_bytes = 1600
    assert window.take(0) == 800


def test_a_window_that_shrinks_gives_nothing_until_it_is_used_up() -> None:
    window = Window(800)
    window.size_bytes = 400
    assert window.take(400) == 0
    assert window.take(100) == 100


def settle(line_s: float, rate: float, seconds: float = 20.0) -> tuple[float, float]:
    """The window in bytes and the queue in seconds that a bulk stream ends with."""
    window, pace = Window(), Pace()
    now_s = 0.0
    queue_s = 0.0
    while now_s < seconds:
        queue_s = max(0.0, window.size_bytes / rate - line_s)
        round_trip_s = line_s + queue_s
        goodput = min(rate, window.size_bytes / round_trip_s)
        now_s += 0.04
        assert pace.wants_sample(now_s)
        assert not pace.wants_sample(now_s)
        now_s += round_trip_s
        window.take(int(goodput * (0.04 + round_trip_s)))
        pace.sampled(round_trip_s if now_s > 1.0 else line_s, now_s, [window], 0)
    return window.size_bytes, queue_s


@pytest.mark.parametrize("line_s", [0.005, 0.02, 0.1])
def test_others_wait_little_behind_a_stream_that_fills_a_narrow_line(line_s: float) -> None:
    _, queue_s = settle(line_s, rate=10e6)
    assert queue_s <= 0.06


@pytest.mark.parametrize("line_s", [0.01, 0.02, 0.1])
def test_a_long_line_is_filled(line_s: float) -> None:
    size_bytes, _ = settle(line_s, rate=120e6)
    assert size_bytes >= 120e6 * line_s


def test_no_more_than_the_first_size_on_this_machine() -> None:
    window, pace = Window(), Pace()
    for i in range(100):
        now_s = i * 0.05
        assert pace.wants_sample(now_s)
        window.take(25_000_000)
        pace.sampled(0.0002 + 0.002 * (i % 3), now_s, [window], 0)
    assert window.size_bytes == FIRST_BYTES


def bulk(pace: Pace, window: Window, round_trip_s: float, seconds: float, sent: int = 0) -> None:
    """A stream of 10 MB/s for so long, from where the one before it ended."""
    began_s = pace._sampled_s if pace._sampled_s > 0 else 0.0
    now_s = began_s
    sent_bytes = pace._sent_bytes
    while now_s < began_s + seconds:
        now_s += 0.1
        assert pace.wants_sample(now_s)
        window.take(1_000_000)
        sent_bytes += sent
        pace.sampled(round_trip_s, now_s, [window], sent_bytes)


def test_queues_of_what_we_send_are_no_reason_to_receive_less() -> None:
    window, pace = Window(), Pace()
    bulk(pace, window, 0.02, 1.0)
    bulk(pace, window, 0.3, 20.0, sent=500_000)
    assert window.size_bytes >= FIRST_BYTES


def test_a_way_that_has_become_longer_is_measured_anew() -> None:
    window, pace = Window(), Pace()
    bulk(pace, window, 0.02, 1.0)
    bulk(pace, window, 0.2, 25.0)
    assert window.size_bytes < FIRST_BYTES
    bulk(pace, window, 0.2, 10.0)
    assert window.size_bytes >= 2_000_000


def test_a_peer_that_sends_more_than_it_was_allowed_is_found_out() -> None:
    window = Window(800)
    window.came(800)
    window.take(400)  # which allows as many more
    window.came(400)
    with pytest.raises(SSHException, match="more than it was allowed"):
        window.came(1)
