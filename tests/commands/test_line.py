"""The line of `%%slurm`: meaning and errors."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.commands.line import (
    Request,
    Reuse,
    after,
    by_text,
    parse,
    parse_with_arguments,
    spec,
)
from jupyter_slurm.commands.parsing import expand, split
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import (
    CellSpec,
    JobKind,
    JobSpec,
    KernelSpec,
    LabSpec,
    ProgramSpec,
    ScriptSpec,
)

NAMES: dict[str, object] = {
    "job": SimpleNamespace(id="fit", at=3),
    "rate": 0.25,
    "rates": [1, 0.25],
    "sizes": {"big": 8},
    "len": len,
}


def job(
    request: Request, code: str, made: type[JobSpec] | None = None, notebook: str | None = None
) -> JobSpec:
    """Return the requested job. If `made` is None, the text decides its kind."""
    return spec(made or by_text(code), request, code, job_id="aaaaaaaa", notebook=notebook)


def test_sbatch_options_and_our_options_mix_in_any_order() -> None:
    request = parse(
        split("--gpus 1 --image pytorch:22.11 --time=30m --in data --out model,losses -p gpu")
    )
    assert request.options == {"gpus": "1", "time": "00:30:00", "partition": "gpu"}
    assert request.image == "pytorch:22.11"
    assert request.names_in == ("data",)
    assert request.names_out == ("model", "losses")


@pytest.mark.parametrize(
    ("defaults", "typed", "options"),
    [
        ("--gpus 1 --time 1h", "--gpus-per-node 2", {"gpus-per-node": "2", "time": "01:00:00"}),
        ("-G1 -N1", "--gres gpu:a100:2 -w n[1-2]", {"gres": "gpu:a100:2", "nodelist": "n[1-2]"}),
        ("--mem 4G --image i", "--mem-per-cpu 1G -- --mem 2G", {"mem-per-cpu": "1G"}),
        ("--exclusive", "--oversubscribe", {"oversubscribe": ""}),
    ],
)
def test_option_replaces_related_defaults_of_the_notebook(
    defaults: str, typed: str, options: dict[str, str]
) -> None:
    assert parse_with_arguments(after(split(defaults), split(typed))).options == options


def test_all_our_options_are_parsed() -> None:
    line = (
        "--cluster c --image i --runtime none --module a/1,b --module c --in x,y --in x --out z "
        "--detach --on-interrupt cancel --env 'A=b c' --env B= --mount /d:/data:ro --fresh "
        "--dry-run --name my.job --no-raise --push 'my code' --fetch 'a b/*.csv,c' --fetch c "
        "--push-exclude 'a,b/' --push-exclude='*.pt' --container-name mine --container-remap-root"
    )
    assert parse(split(line)) == Request(
        options={},
        cluster="c",
        image="i",
        container_name="mine",
        container_remap_root=True,
        runtime="none",
        modules=("a/1", "b", "c"),
        names_in=("x", "y"),
        names_out=("z",),
        push="my code",
        push_exclude=("a,b/", "*.pt"),
        fetch=("a b/*.csv", "c"),
        detach=True,
        on_interrupt="cancel",
        env={"A": "b c", "B": ""},
        mounts=("/d:/data:ro",),
        reuse=Reuse.FRESH,
        dry_run=True,
        name="my.job",
        raise_on_failure=False,
    )


def test_exclude_option_names_nodes_as_in_sbatch() -> None:
    request = parse(split("--push . --exclude n[1-3] --push-exclude '!data/keep' -x n4"))
    assert (request.options["exclude"], request.push_exclude) == ("n4", ("!data/keep",))
    assert parse(split("--push . --exclude ./nodes")).options == {"exclude": "./nodes"}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--imgae x", "--image"),
        ("--partitoin x", "--partition"),
        ("--time soon", "--time"),
        ("--image", "--image: expected one argument"),
        ("--detach=1", "--detach: ignored explicit argument"),
        ("print(1)", "Put code below the line"),
        ("--name 'a b'", "a b"),
        ("--env novalue", "NAME=VALUE"),
        ("--in 'a b'", "`a b` is not a variable name"),
        ("--on-interrupt stop", "`detach`, `cancel`"),
        ("--attach --fresh", "exclude each other"),
        ("--comment 'open", "quot"),
        ("--fetch /etc/passwd", "outside the job's working directory"),
        ("--fetch 'out/../../x'", "outside the job's working directory"),
        ("--fetch ~/x", "outside the job's working directory"),
        ("--container-mounts=.:/workspace", "--mount SRC:DST"),
        ("--container-mount-home", "the home is already mounted"),
        ("--container-image ubuntu", "--image IMAGE"),
    ],
)
def test_error_for_an_invalid_line_shows_the_word_and_a_fix(line: str, told: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse(split(line))
    assert told in str(raised.value)


def test_name_in_braces_expands_to_one_word() -> None:
    words = split("--comment={text} --name fit-{seed}")
    assert expand(words, {"text": "a 'b' $c\nd", "seed": 7}) == [
        "--comment=a 'b' $c\nd",
        "--name",
        "fit-7",
    ]


@pytest.mark.parametrize(
    ("word", "becomes"),
    [
        ("afterok:{job.id}", "afterok:fit"),
        ("{job.at.real}", "3"),
        ("{rates[1]}-{sizes['big']}", "0.25-8"),
        ("lr-{rate:.1e}", "lr-2.5e-01"),
        ("{{job.id}}{{rates[1]}}{{rate:.1e}}", "{job.id}{rates[1]}{rate:.1e}"),
        ("{{rate * 2}}{{other * 2}}", "{rate * 2}{{other * 2}}"),
        ("out/{rate,job}.csv", "out/{rate,job}.csv"),
    ],
)
def test_attributes_and_items_expand_in_braces(word: str, becomes: str) -> None:
    assert expand([word], NAMES) == [becomes]


def test_dollars_and_other_braces_are_not_expanded() -> None:
    words = ["--export=HOME=$HOME", "A={'a'}", '{"x":{"y":1}}', "{{x}}", "{}", "{1,2}"]
    assert expand(words, {"x": 1}) == [*words[:3], "{x}", "{}", "{1,2}"]


def test_error_for_an_unknown_name_in_braces_suggests_the_nearest_name() -> None:
    with pytest.raises(RequestError) as raised:
        expand(["{sede}"], {"seed": 7})
    assert "Did you mean `seed`" in str(raised.value)
    assert "{{sede}}" in str(raised.value)


@given(st.text())
def test_any_text_is_expanded_or_rejected(text: str) -> None:
    try:
        (word,) = expand([text], {})
    except RequestError:
        return
    assert word == text or "{{" in text


@given(st.text())
def test_any_line_is_parsed_or_rejected(text: str) -> None:
    with suppress(RequestError):
        parse(split(text))


def test_first_characters_of_a_cell_decide_the_kind_of_job() -> None:
    request = parse([])
    assert job(request, "1+1").kind is JobKind.CELL
    assert job(request, "#!/bin/sh\n").kind is JobKind.PROGRAM
    script = job(request, "#!/bin/sh\n", made=ScriptSpec)
    assert script.kind is JobKind.SCRIPT


def test_variables_require_python_code() -> None:
    with pytest.raises(RequestError, match="#!"):
        job(parse(["--in", "x"]), "#!/bin/sh")


@pytest.mark.parametrize(
    ("line", "name", "detach"),
    [
        ("--session", "", None),
        ("--session fit", "fit", None),
        ("--session=fit --detach", "fit", True),
        ("--session --detach", "", True),
        ("--in a --session fit --out b", "fit", None),
    ],
)
def test_session_can_be_named(line: str, name: str, detach: bool | None) -> None:
    request = parse(split(line))
    assert (request.session, request.detach) == (name, detach)
    assert job(request, "1").session == name


@pytest.mark.parametrize(
    "words", ["--gpus 1", "--image i", "--runtime none", "--module m", "--env A=1", "--mount /d"]
)
def test_cell_in_a_session_rejects_options_for_the_session(words: str) -> None:
    name = words.split(maxsplit=1)[0]
    with pytest.raises(RequestError, match=f"{name} cannot be used in a session"):
        job(parse(split(f"{words} --session")), "1")


@pytest.mark.parametrize("words", ["-J fit", "--job-name=fit", "--name fit -J fit"])
def test_job_name_option_sets_the_name(words: str) -> None:
    request = parse(split(words))
    for kind in (CellSpec, ProgramSpec, KernelSpec, LabSpec):
        named = job(request, "", made=kind, notebook="n.ipynb")
        assert (request.name, named.name, named.options) == ("fit", "fit", {})
    script = job(request, "#!/bin/sh", made=ScriptSpec)
    assert (script.name, script.options) == ("fit", {"job-name": "fit"})
