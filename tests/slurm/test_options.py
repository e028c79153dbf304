import json
import re
from pathlib import Path

import pytest

from jupyter_slurm.slurm.option_table import ALIASES, EXCLUSIVE
from jupyter_slurm.slurm.options import (
    OPTIONS,
    OptionError,
    check_option,
    check_together,
    parse_options,
    sbatch_args,
    suggest,
)
from jupyter_slurm.slurm.versions import parse_version


def test_options_are_parsed_in_every_form() -> None:
    words = "-n4 -c 2 --time=30m --mem 64g -J name --gres gpu:1 -H --nice --exclusive=user".split()
    assert parse_options(words) == {
        "ntasks": "4",
        "cpus-per-task": "2",
        "time": "00:30:00",
        "mem": "64G",
        "job-name": "name",
        "gres": "gpu:1",
        "hold": "",
        "nice": "",
        "exclusive": "user",
    }


def test_optional_value_never_comes_from_the_next_word() -> None:
    with pytest.raises(OptionError, match="`user` does not belong to any option") as caught:
        parse_options(["--exclusive", "user"])
    assert caught.value.word == "user"
    assert caught.value.suggestion is None
    assert parse_options(["-koff"]) == {"no-kill": "off"}
    assert parse_options(["-k"]) == {"no-kill": ""}


def test_values_can_contain_any_text() -> None:
    text = "a b $HOME 'q' \"d\" # ü\n--hold"
    assert parse_options(["--comment", text, f"--job-name={text}"]) == {
        "comment": text,
        "job-name": text,
    }


@pytest.mark.parametrize(
    ("words", "word", "suggestion", "message"),
    [
        (["--partiton=gpu"], "--partiton", "--partition", "no option `--partiton`"),
        (["--gpu=1"], "--gpu", "--gpus", "no option `--gpu`"),
        (["-Z"], "-Z", None, "no option `-Z`"),
        (["--time"], "--time", None, "needs a value"),
        (["--time=soon"], "--time=soon", None, "is not a time: write minutes"),
        (["--mem", "lots"], "--mem=lots", None, "is not a memory size"),
        (["-n", "-4"], "--ntasks=-4", None, "whole number from 1"),
        (["--hold=yes"], "--hold=yes", None, "takes no value"),
        (["--"], "--", None, "does not belong to any option"),
        (["--wrap", "ls"], "--wrap=ls", None, "cannot be used"),
    ],
)
def test_unknown_word_is_rejected_with_a_suggestion(
    words: list[str], word: str, suggestion: str | None, message: str
) -> None:
    with pytest.raises(OptionError, match=re.escape(message)) as caught:
        parse_options(words)
    assert (caught.value.word, caught.value.suggestion) == (word, suggestion)
    assert message in str(caught.value)


GOOD = {
    "time": [("30m", "00:30:00"), ("1-12", "1-12:00:00"), ("UNLIMITED", "UNLIMITED")],
    "mem": [("64g", "64G"), ("1500", "1500M"), ("0", "0"), ("1.5G", "1536M")],
    "cpus-per-task": [("8", "8")],
    "core-spec": [("0", "0")],
    "nice": [("-5", "-5"), ("", "")],
    "array": [("1-8%4", "1-8%4")],
    "gpus": [("2", "2"), ("a100:2", "a100:2"), ("a100:1,v100:1", "a100:1,v100:1"),
             ("2080ti:1", "2080ti:1"), ("3090:2", "3090:2"), ("3g.20gb:1,3090:1",) * 2],
    "signal": [("USR1@120", "USR1@120"), ("b:sigterm", "B:TERM"), ("10", "10")],
    "dependency": [("afterok:1:k3j5x2m7+5,k3j5x2m7",) * 2, ("afterok:1:2,afterany:3_4",) * 2,
                   ("singleton", "singleton"), ("afterok:1?afterany:2", "afterok:1?afterany:2"),
                   ("after:1+5", "after:1+5"), ("aftercorr:7_*", "aftercorr:7_*"), ("12", "12")],
    "mail-type": [("end,fail", "END,FAIL")],
    "open-mode": [("Append", "append")],
    "nodes": [("two, or ü", "two, or ü")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [(name, typed, value) for name, pairs in GOOD.items() for typed, value in pairs],
)
def test_valid_value_is_normalised(name: str, typed: str, value: str) -> None:
    assert check_option(name, typed) == value
    assert check_option(name, value) == value


BAD = {
    "time": ["", "soon"],
    "mem": ["", "x"],
    "cpus-per-task": ["", "0", "-1", "1.5", "two"],
    "core-spec": ["-1", ""],
    "array": ["", "1-8%0"],
    "gpus": ["", "a100", "a100:two", "3090:two", "3090:", ":2"],
    "signal": ["", "USR1 TERM", "X:USR1", "USR1@soon", "$(id)"],
    "dependency": [
        "",
        "afterok",
        "afterany",
        "afterok:x",
        "afterok:ABCDEFGH",
        "afterok:1,afterany:2?after:3",
        "later:1",
    ],
    "mail-type": ["", "always"],
    "open-mode": ["", "w"],
    "job-name": ["nul\0"],
}


@pytest.mark.parametrize(
    ("name", "typed"), [(name, typed) for name, texts in BAD.items() for typed in texts]
)
def test_error_for_an_invalid_value_names_the_option(name: str, typed: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_option(name, typed)
    assert f"--{name}" in str(caught.value)
    assert caught.value.word.startswith(f"--{name}")


@pytest.mark.parametrize("group", EXCLUSIVE)
def test_mutually_exclusive_options_are_rejected(group: tuple[str, ...]) -> None:
    for name in group:
        check_together({name: "1"})
    with pytest.raises(OptionError, match="exclude each other"):
        check_together(dict.fromkeys(group[:2], "1"))


def test_gpus_are_requested_by_one_option_only() -> None:
    with pytest.raises(OptionError, match="exclude each other"):
        check_together({"gres": "tmp:1,gpu:2", "gpus-per-node": "2"})
    with pytest.raises(OptionError, match="exclude each other"):
        check_together({"gres": "gres/gpu:3090:1", "gpus-per-node": "3090:1"})
    check_together({"gres": "tmp:1", "gpus-per-node": "2"})


@pytest.mark.parametrize(("gpus", "nodes"), [("1", "2"), ("a100:1,v100:1", "3-4")])
def test_fewer_gpus_than_nodes_are_rejected(gpus: str, nodes: str) -> None:
    with pytest.raises(OptionError, match="fewer than one for each of"):
        check_together({"gpus": gpus, "nodes": nodes})
    check_together({"gpus": "4", "nodes": nodes})
    check_together({"gpus": "0", "nodes": nodes})


@pytest.mark.parametrize(
    ("word", "extra", "near"),
    [
        ("--partitoin", (), "--partition"),
        ("--imag", ("image", "runtime"), "--image"),
        ("--time-limit=3", (), "--time-min"),
        ("squeu", ("squeue", "sinfo"), "squeue"),
        ("tiem", (), "time"),
        ("zzzz", ("squeue",), None),
    ],
)
def test_nearest_word_is_suggested(word: str, extra: tuple[str, ...], near: str | None) -> None:
    assert suggest(word, extra) == near


def test_argv_round_trips() -> None:
    options = {"ntasks": "4", "comment": "-- $x\n'", "nice": "", "hold": "", "exclusive": "user"}
    assert parse_options(sbatch_args(options)) == options


BY_RELEASE: dict[str, dict[str, tuple[str, str]]] = json.loads(
    (Path(__file__).parents[1] / "recorded" / "sbatch_options.json").read_text()
)
"""The options of each release, from Slurm's own tables. A long name maps to the kind of its value
and its short name."""


@pytest.mark.parametrize("release", BY_RELEASE)
def test_option_table_matches_slurm(release: str) -> None:
    version = parse_version(release)
    assert version is not None
    there = {
        name
        for name, option in OPTIONS.items()
        if (option.since is None or option.since <= version)
        and (option.until is None or version < option.until)
    }
    theirs = BY_RELEASE[release]
    if release == "23.11":  # only this release lacks --export-file
        there.remove("export-file")
    assert there | set(ALIASES) == set(theirs), (
        "Our table and Slurm disagree on the options of this release. "
        "Correct `since` and `until` in the table."
    )
    for name in there:
        value, short = theirs[name]
        assert (OPTIONS[name].short or "") == short
        if value == "none":
            assert OPTIONS[name].kind == "flag" or OPTIONS[name].value_optional
        else:
            assert OPTIONS[name].kind != "flag"
            assert OPTIONS[name].value_optional or value == "required"
