"""Hostile inputs. Each arrives byte for byte, or is rejected before sbatch is called.

They are generated from a fixed seed. The job itself reports the received bytes.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from jupyter_slurm.errors import NotFoundError, RequestError
from jupyter_slurm.wire import Job, JobKind, JobSpec, JobState
from tests.jobs.conftest import Site, over_ssh, spec
from tests.specs import comment_directive

MIB = 1 << 20
PIECES = (
    *"'\"`$\\#;|&*?!~%{}[]()<>^=-, \t\n\r\f\v\x01\x07\x08\x1b\x1c\x1d\x1e\x1f\x7f\x85\0",
    *"é ß 漢字 e\u0301 \u202e \u2066 \u200f \ufeff \U0001f600 \U0001f468\u200d \U0010ffff".split(),
    *"${HOME} $HOME $((1+1)) '\"'\"' \\n \\' %j %% %s {x} {{x}} {attempt} && || -- ..".split(),
    *"--wrap=id ~root jslurm:aaaaaaaa \x1b[31m <b> &lt; a Z \uffff \ue000".split(),
    *("$(touch pwned)", "`touch pwned`", "EOF\n", "\r\n", "\n\n", "#SBATCH ", "\u00a0", "\u2028"),
)


def hostile(count: int, seed: str, without: str = "\0", most_bytes: int = 200) -> list[str]:
    """Return `count` distinct texts without these characters."""
    generator = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        pieces = generator.choices(PIECES, k=generator.randint(1, 24))
        text = "".join(c for c in "".join(pieces) if c not in without)
        if text and len(text.encode()) <= most_bytes:
            found[text] = None
    return list(found)


def folders(count: int, seed: str, parent: Path, without: str = "") -> list[Path]:
    """Create folders with hostile names."""
    made = []
    for name in hostile(count, seed, without="\0/" + without):
        folder = parent / f".{name}"
        folder.mkdir(exist_ok=True)
        made.append(folder)
    return made


def literal(text: str) -> str:
    """Return a Python literal of `text`, without escapes for the characters that Python
    preserves."""
    for raw, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\r", "\\r"), ("\0", "\\0")):
        text = text.replace(raw, escaped)
    return f"'''{text}'''"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sbatch_calls(site: Site) -> int:
    return site.service.status().commands.get("sbatch", 0)


def ended(
    site: Site, specs: Iterable[JobSpec], state: JobState = JobState.COMPLETED
) -> Iterator[Job]:
    """Submit all specs at once, and assert their final state."""
    with ThreadPoolExecutor(8) as pool:
        submitted = list(pool.map(site.service.submit, specs))
    for job in submitted:
        done = site.wait(job.id, limit_s=120)
        assert done.state is state, (done.why, site.text(job.id, "stderr"))
        yield done


def comments_in_queue(site: Site) -> list[str]:
    end = "\x1d\x1e\x1d"
    told = site.service.command(["squeue", "-h", "-t", "all", "-o", f"%k{end}"])
    return told.stdout.split(f"{end}\n")


# --- cells ---
TELL = """\
import hashlib, json, os, sys
with open(os.path.dirname(sys.modules["runner_cell"].__file__) + "/cell.py", "rb") as file:
    text = file.read()
told = {
    "text": hashlib.sha256(text).hexdigest(),
    "folder": os.getcwd(),
    "env": os.environ["HOSTILE"],
    "literal": hostile,
}
print(json.dumps(told))
"""


@over_ssh
def test_hostile_inputs_of_a_cell_arrive_unchanged(site: Site, tmp_path: Path) -> None:
    count = 12
    texts = hostile(count, "text", without="")
    where = folders(count, "folder", tmp_path)
    values = hostile(count, "env")
    comments = hostile(count, "comment")
    specs = [
        spec(
            f"# {text.translate(_NO_LINE_ENDS)}\nhostile = {literal(text)}\n{TELL}",
            **site.at(folder, comment=comment),
            env={"HOSTILE": value},
        )
        for text, folder, value, comment in zip(texts, where, values, comments, strict=True)
    ]
    told = {job.id: json.loads(site.text(job.id)) for job in ended(site, specs)}
    seen = comments_in_queue(site)
    for asked, text in zip(specs, texts, strict=True):
        assert told[asked.id] == {
            "text": digest(asked.code),
            "folder": _folder(asked),
            "env": asked.env["HOSTILE"],
            "literal": text,
        }
        assert f"jslurm:{asked.id} {asked.options['comment']}" in seen
    assert not list(tmp_path.rglob("pwned"))


_NO_LINE_ENDS = dict.fromkeys(map(ord, "\n\r\0"), " ")


# --- the environment ---
@over_ssh
def test_hostile_environment_values_arrive(site: Site) -> None:
    env = {f"V{n}": value for n, value in enumerate(hostile(60, "environment"))}
    env |= {"EMPTY": "", "_lower": " ", "LONG": "é" * 60_000, "IFS": "x", "CDPATH": "/", "ENV": "~"}
    job = site.run("import json, os; print(json.dumps(dict(os.environ)))", env=env)
    told = json.loads(site.text(job.id))
    assert {name: told.get(name) for name in env} == env


# --- batch scripts ---
@over_ssh
def test_hostile_batch_scripts_and_comments_arrive(site: Site, tmp_path: Path) -> None:
    count = 6
    texts = hostile(count, "script", without="\0\r")
    comments = hostile(count, "directive", without="\0\n\r")
    where = folders(count, "script", tmp_path)
    specs = [
        spec(
            f"#!/bin/bash\n{comment_directive(comment)}\n: <<\\END\n{text}\nEND\n"
            f'pwd\nsha256sum <"$0"\n# {"x" * (9 if number else MIB)}\n',
            kind=JobKind.SCRIPT,
            **site.at(folder),
        )
        for number, (text, comment, folder) in enumerate(zip(texts, comments, where, strict=True))
    ]
    for job, asked in zip(ended(site, specs), specs, strict=True):
        assert site.text(job.id) == f"{_folder(asked)}\n{digest(asked.code)}  -\n"
    seen = comments_in_queue(site)
    for asked, comment in zip(specs, comments, strict=True):
        assert f"jslurm:{asked.id} {comment}" in seen


# --- folders ---
@over_ssh
def test_folders_with_any_name_are_mounted(site: Site, tmp_path: Path, demo_image: Path) -> None:
    sources = folders(12, "mount", tmp_path, without=":")
    points = [f"/mnt/.{name}" for name in hostile(12, "point", without="\0/:")]
    for number, folder in enumerate(sources):
        (folder / "which").write_text(str(number))
    job = site.run(
        f"print([open(point + '/which').read() for point in {points!r}])",
        mounts=tuple(f"{src}:{dst}" for src, dst in zip(sources, points, strict=True)),
        image=str(demo_image),
        runtime="charliecloud",
    )
    assert site.text(job.id) == f"{[str(n) for n in range(12)]}\n"


# --- rejections ---
def refused() -> Iterator[tuple[str, JobSpec]]:
    """Yield an error and a job that causes it."""
    for text in hostile(40, "name", without=""):
        yield "name", spec("1", name=text)
    for text in hostile(10, "variable's name", without=""):
        yield "env name", spec("1", env={text: "1"})
    for kind in (JobKind.CELL, JobKind.PROGRAM, JobKind.SCRIPT):
        yield "surrogate", spec("#!/bin/sh\n# \udce9", kind=kind)
    for part in ("notebook", "cwd", "image", "runtime", "cluster", "fingerprint"):
        yield part, spec("1", **{part: "/a\udce9"})
    for part in ("cwd", "image", "runtime", "cluster"):
        yield part, spec("1", **{part: "/a\0"})
    for text in ("\0", "\udce9"):
        yield "env", spec("1", env={"A": text})
        yield "option", spec("1", options={"comment": text})
        yield "option's name", spec("1", options={text: "1"})
        yield "module", spec("1", modules=(text,))
        yield "mount", spec("1", mounts=(f"/{text}:/mnt/x",), runtime="charliecloud", image="/")
        yield "program", spec(f"#!/bin/sh\n{text}", kind=JobKind.PROGRAM)
        yield "script", spec(f"#!/bin/sh\n{text}", kind=JobKind.SCRIPT)
        yield "names_out", spec("1", names_out=(text,))
    yield "id", replace(spec("1"), id="a$(id)/..")
    yield "no program", spec("echo 1", kind=JobKind.PROGRAM)
    yield "no script", spec("echo 1", kind=JobKind.SCRIPT)
    yield "DOS script", spec("#!/bin/sh\r\necho 1\r\n", kind=JobKind.SCRIPT)
    yield "long value", spec("1", env={"A": "x" * MIB})
    yield "long values", spec("1", env={f"A{n}": "x" * 100_000 for n in range(30)})
    for name in ("PWD", "OLDPWD", "_", "OPTIND", "UID", "PPID", "SHELLOPTS", "RANDOM", "SHLVL"):
        yield "shell's", spec("1", env={name: "x"})
    script = spec("#!/bin/sh\n", kind=JobKind.SCRIPT)
    yield "script env", replace(script, env={"A": "1"})
    yield "script modules", replace(script, modules=("gcc",))
    yield "script mounts", replace(script, mounts=("/tmp",))
    yield "script image", replace(script, image="/")


def test_unsupported_text_is_rejected_before_sbatch(site: Site) -> None:
    for _, asked in refused():
        with pytest.raises((RequestError, NotFoundError)):
            site.service.submit(asked)
    assert sbatch_calls(site) == 0
    assert site.service.jobs() == []


def _folder(asked: JobSpec) -> str:
    return asked.cwd or asked.options["chdir"]
