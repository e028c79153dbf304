"""Hostile texts in a notebook: a real kernel, the real agent, a real Slurm.

What the jobs themselves get is in tests/jobs/test_hostile.py; here is what lies around them.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.plugin import ROOT, SlurmCluster, jupyter_homes
from tests.jobs.test_hostile import MIB, hostile, literal
from tests.magics.kernel import LOAD, Kernel, Reply, running_kernel


@pytest.fixture(scope="module")
def kernel(slurm_cluster: SlurmCluster) -> Iterator[Kernel]:
    """In a folder and a notebook of hostile names, with an agent of its own."""
    # Not pytest's own folder: a socket's path must be short.
    home = Path(tempfile.mkdtemp(prefix="hostile-"))
    folder, notebook = (home / name for name in hostile(2, "notebook", without="\0/"))
    folder.mkdir()
    env = {
        **slurm_cluster.env,
        **jupyter_homes(home),
        "JUPYTER_CONFIG_DIR": slurm_cluster.env["JUPYTER_CONFIG_DIR"],
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": str(ROOT),
        "JPY_SESSION_NAME": f"{folder}/{notebook.name}.ipynb",
    }
    for name in ("JUPYTER_SLURM_AGENT", "SLURM_CONF"):
        env.pop(name, None)
    with running_kernel(env, folder) as it:
        assert it.run(LOAD).content["status"] == "ok"
        yield it
    stop = [sys.executable, "-m", "jupyter_slurm", "agent", "stop"]
    subprocess.run(stop, env=env, check=True, timeout=60, capture_output=True)
    shutil.rmtree(home)


LINE_ENDS = "\0\n\r\v\f\x1c\x1d\x1e\x85\u2028"
"""Where IPython takes a magic's line to end (str.splitlines)."""


KERNEL_GROWS_MIB = 64
"""By more than that the kernel may not grow, however much a job prints."""


def ok(reply: Reply) -> Reply:
    assert reply.content["status"] == "ok", reply.content
    return reply


def given_back(kernel: Kernel, expression: str) -> object:
    """The value of an expression in the kernel."""
    return json.loads(ok(kernel.run(f"import json; print(json.dumps({expression}))")).text)


def test_words_of_the_line_and_values_in_braces_arrive(kernel: Kernel) -> None:
    texts = hostile(40, "line", without=f"{LINE_ENDS}{{}}")
    words = " ".join(f"--env {shlex.quote(f'Q{n}={text}')}" for n, text in enumerate(texts))
    values = [*hostile(40, "braces"), "--detach", "--wait", "--fresh --name x", "x\n" * 10_000]
    ok(kernel.run(f"values = {values!r}"))
    ok(kernel.run("for n, value in enumerate(values): globals()[f'v{n}'] = value"))
    braces = " ".join(f"--env B{n}={{v{n}}}" for n in range(len(values)))
    ok(
        kernel.run(
            f"%%slurm {words} {braces} --comment {{v40}} --out told\n"
            "import os\ntold = {k: v for k, v in os.environ.items() if k[0] in 'QB'}"
        )
    )
    told = given_back(kernel, "told")
    assert isinstance(told, dict)
    assert [told[f"Q{n}"] for n in range(len(texts))] == texts
    assert [told[f"B{n}"] for n in range(len(values))] == values


def test_texts_of_a_cell_and_variables_arrive_and_come_back(kernel: Kernel) -> None:
    texts = [*hostile(40, "cell", without=""), "\U0001f600" * (MIB // 4), "\udce9", "\0"]
    ok(kernel.run(f"texts = {texts!r}"))
    cell = "%%slurm --in texts --out same,back\nwritten = [\n"
    cell += "".join(f"{literal(text)},\n" for text in texts if text != "\udce9")
    cell += "]\nsame = written == [t for t in texts if t != '\\udce9']\nback = texts[::-1]"
    ok(kernel.run(cell))
    assert given_back(kernel, "[same, back == texts[::-1]]") == [True, True]


def test_what_a_cell_prints_is_shown_whatever_it_is(kernel: Kernel) -> None:
    texts = hostile(40, "printed", without="\r")
    reply = ok(kernel.run(f"%%slurm\nfor text in {texts!r}:\n    print(text)"))
    assert reply.text == "".join(f"{text}\n" for text in texts)
    reply = ok(
        kernel.run(
            "%%slurm\nimport os\nprint('caf\\udce9', '\\ud83d', flush=True)\n"
            "os.write(1, b'\\xff\\xc3|\\0')\ndisplay({'k': '\\ud83d'})\n"
            "display({'text/plain': 'h\\udce9'}, raw=True)"
        )
    )
    assert reply.text.startswith("caf\\udce9 \\ud83d\n\ufffd\ufffd|\0")
    assert "h\\udce9" in [shown["content"]["data"]["text/plain"] for shown in reply.displays()]


def test_one_line_of_a_hundred_megabytes_leaves_notebook_and_kernel_small(
    kernel: Kernel, tmp_path: Path
) -> None:
    peak = "__import__('resource').getrusage(__import__('resource').RUSAGE_SELF).ru_maxrss"
    ok(kernel.run("%%slurm\n1"))
    before_kib = given_back(kernel, peak)
    reply = ok(
        kernel.run(
            "%%slurm --name flood\nfor n in range(500):\n"
            "    print('\\r\\x1b[2K\\u202e\\U0001f600' * 2_000 + 'x' * 180_000, end='')"
        )
    )
    after_kib = given_back(kernel, peak)
    assert isinstance(before_kib, int)
    assert isinstance(after_kib, int)
    assert (after_kib - before_kib) / 1024 < KERNEL_GROWS_MIB
    assert sum(len(json.dumps(message["content"])) for message in reply.messages) < 12 * MIB
    job_id = given_back(kernel, "get_ipython().run_line_magic('slurm', 'jobs').rows[0]['ID']")
    ok(kernel.run(f"%slurm logs {job_id} --to {shlex.quote(str(tmp_path / 'log'))}"))
    part = "\r\x1b[2K\u202e\U0001f600" * 2_000 + "x" * 180_000
    assert (tmp_path / "log").read_bytes().decode() == part * 500


def test_an_error_of_half_characters_and_markup_is_told(kernel: Kernel) -> None:
    reply = kernel.run("%%slurm\nraise ValueError('caf\\udce9 <script>alert(1)</script>')")
    assert reply.content["ename"] == "CellFailed"
    assert "caf\\udce9" in reply.content["evalue"] + "".join(reply.content["traceback"])
    assert all(
        "<script>" not in m["content"]["data"].get("text/html", "") for m in reply.displays()
    )


def test_names_that_are_no_utf8_do_not_hide_the_queue(
    kernel: Kernel, slurm_cluster: SlurmCluster
) -> None:
    argv = [b"sbatch", b"--parsable", b"--hold", b"--job-name=\xff\x1f\x1e<b>", b"--wrap=true"]
    done = subprocess.run(argv, env=slurm_cluster.env, check=True, capture_output=True)
    slurm_id = done.stdout.decode().strip()
    try:
        for line in ("%slurm queue", "%squeue", f"%scontrol show job {slurm_id}"):
            assert slurm_id in json.dumps(ok(kernel.run(line)).messages, default=str)
    finally:
        slurm_cluster.run("scancel", slurm_id)


def test_a_script_that_cannot_be_given_what_the_line_says_is_refused(kernel: Kernel) -> None:
    for option in ("--env A=1", "--module gcc", "--mount /tmp"):
        reply = kernel.run(f"%%sbatch {option}\n#!/bin/sh\n")
        assert option.split()[0] in str(reply.content), reply.content
        assert reply.content["ename"] == "UsageError"
