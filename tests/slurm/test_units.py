import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.slurm.units import (
    format_memory,
    format_time,
    gpus_in_tres,
    parse_array,
    parse_duration_s,
    parse_epoch,
    parse_exit,
    parse_memory_mib,
    parse_nodelist,
    parse_time_s,
    parse_tres,
)

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30 * MINUTE),
        ("30:00", 30 * MINUTE),
        ("1:30", 90),
        ("1:00:00", HOUR),
        ("1-0", DAY),
        ("1-12", DAY + 12 * HOUR),
        ("1-12:30", DAY + 12 * HOUR + 30 * MINUTE),
        ("1-02:03:04", DAY + 2 * HOUR + 3 * MINUTE + 4),
        ("30m", 30 * MINUTE),
        ("2h", 2 * HOUR),
        ("1d12h", DAY + 12 * HOUR),
        ("90s", 90),
        (" 2H ", 2 * HOUR),
        ("0", 0),
    ],
)
def test_time_limit_is_parsed_in_every_form(text: str, seconds: int) -> None:
    assert parse_time_s(text) == seconds


@pytest.mark.parametrize("text", ["UNLIMITED", "INFINITE", "infinite", "-1"])
def test_unlimited_time_is_none(text: str) -> None:
    assert parse_time_s(text) is None


@pytest.mark.parametrize(
    "text", ["", " ", "abc", "1:2:3:4", "1-", "-5", "1.5h", "2h30", "1h1d", "٣", "1-2-3", "30 m"]
)
def test_invalid_time_is_rejected_with_the_valid_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: write minutes"):
        parse_time_s(text)


@given(st.integers(min_value=0, max_value=400 * DAY))
def test_formatted_time_round_trips(seconds: int) -> None:
    assert parse_time_s(format_time(seconds)) == seconds
    assert parse_duration_s(format_time(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:07", 7),
        ("00:01.041", 1.041),
        ("54:45", 54 * MINUTE + 45),
        ("2:00:00", 2 * HOUR),
        ("3-01:00:00", 3 * DAY + HOUR),
        *[
            (word, None)
            for word in "UNLIMITED INVALID NOT_SET Partition_Limit N/A Unknown infinite n/a".split()
        ],
        ("", None),
    ],
)
def test_printed_duration_is_parsed(text: str, seconds: float | None) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1500", 1500),
        ("64G", 65536),
        ("1.5G", 1536),
        ("4gb", 4096),
        ("2GiB", 2048),
        ("1T", 1048576),
        ("1024K", 1),
        ("1K", 1),
        ("0", 0),
    ],
)
def test_memory_size_is_rounded_up_to_mib(text: str, mib: int) -> None:
    assert parse_memory_mib(text) == mib


@pytest.mark.parametrize("text", ["", "G", "64X", "-1G", "1,5G", "64 G B", "1e3"])
def test_invalid_memory_size_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a memory size"):
        parse_memory_mib(text)


@given(st.integers(min_value=0, max_value=2**40))
def test_formatted_memory_size_round_trips(mib: int) -> None:
    assert parse_memory_mib(format_memory(mib)) == mib


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[001-003,7],gpu1", ["n001", "n002", "n003", "n7", "gpu1"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("r[1-2]-gpu", ["r1-gpu", "r2-gpu"]),
        ("(null)", []),
        ("None assigned", []),
        ("", []),
    ],
)
def test_node_list_is_expanded_in_order(text: str, names: list[str]) -> None:
    assert parse_nodelist(text) == names


@pytest.mark.parametrize(
    "text",
    [
        *("n[1-", "n1]", "n[[1]]", "n[a-b]", "n[3-1]", "n[1-9999999]", "[]", "n[1-65537]"),
        *("gpu[1-999999999]", "n[1-9999][1-9999]", "n[1-65000],m[1-65000]", "n" + "[1]" * 9),
        *("n[" + "9" * 10_000 + "]", "n[1-" + "9" * 10_000 + "]", "[" * 10_000, "x" * 300),
        *("-oProxyCommand=id", "n1 n2", "n\x1b[31m", "n\u202e1", "a;b", "n[1-2,1-65536]", "n/../m"),
    ],
)
def test_invalid_node_list_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="node"):
        parse_nodelist(text)


@pytest.mark.parametrize(
    ("text", "indices", "throttle"),
    [
        ("1-4", (1, 2, 3, 4), None),
        ("0-15:4", (0, 4, 8, 12), None),
        ("1,3,7%2", (1, 3, 7), 2),
        ("5", (5,), None),
        ("3,1,1-2", (1, 2, 3), None),
    ],
)
def test_array_is_parsed(text: str, indices: tuple[int, ...], throttle: int | None) -> None:
    assert parse_array(text) == (indices, throttle)


@pytest.mark.parametrize(
    "text", ["", "a", "4-1", "1-", "1-4%0", "1-4%", "1-4:0", "1--4", "1-99999999"]
)
def test_invalid_array_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not an array"):
        parse_array(text)


def test_tres_are_parsed_into_numbers_with_memory_in_mib() -> None:
    text = "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=2.5G,node=1,fs/disk=1270.36K,energy="
    tres = parse_tres(text)
    assert tres["mem"] == 2560
    assert (tres["cpu"], tres["gres/gpu"], tres["gres/gpu:a100"]) == (4, 2, 2)
    assert math.isclose(tres["fs/disk"], 1270.36 * 1024)
    assert "energy" not in tres


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:a100:4(S:0-1)", 4),
        ("gpu:a100:2(IDX:0-1)", 2),
        ("gpu:a100:0(IDX:N/A)", 0),
        ("gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:5)", 3),
        ("gres:gpu:2", 2),
        ("gres/gpu:a100:2", 2),
        ("gres:gpu:a100:4", 4),
        ("gpu", 1),
        ("gpu:3g.20gb:2", 2),
        ("gpu:2080ti:2", 2),
        ("gpu:3090:2(S:0-1)", 2),
        ("cpu=2,gres/gpu:3090=1", 1),
        ("cpu=1,gres/gpu=2,gres/gpu:a100=2", 2),
        ("cpu=1,gres/gpu:a100=2,gres/gpu:v100=1", 3),
        ("gres/gpumem=4G,gres/gpuutil=90", 0),
        ("craynetwork:4,tmp:10G", 0),
        ("", 0),
    ],
)
def test_gpus_are_counted_once(text: str, gpus: int) -> None:
    assert gpus_in_tres(text) == gpus


def test_times_are_epochs_or_none() -> None:
    assert parse_epoch("1795257735") == 1795257735.0
    assert parse_epoch("2026-11-21T10:00:00") is not None
    for word in ("N/A", "Unknown", "None", "NONE", "", "0"):
        assert parse_epoch(word) is None


def test_exit_status_is_parsed_into_code_and_signal() -> None:
    assert parse_exit("137:0") == (137, 0)
    assert parse_exit("0:9") == (0, 9)
    assert parse_exit("") is None
