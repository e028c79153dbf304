"""Hostile texts in a notebook: a real kernel, the real agent, a real Slurm.

`tests/jobs/test_hostile.py` tests the jobs themselves.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from tests.cluster.plugin import SlurmCluster
from tests.jobs.test_hostile import MIB, hostile, literal
from tests.magics.kernel import LOAD, Kernel, running_kernel
from tests.magics.test_real import agent_environment, ok


@pytest.fixture(scope="module")
def kernel(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """Yield a kernel in a folder and a notebook with hostile names, with its own agent."""
    home = tmp_path_factory.mktemp("hostile")
    folder, notebook = (home / name for name in hostile(2, "notebook", without="\0/"))
    folder.mkdir()
    with agent_environment(slurm_cluster) as env:
        env["JPY_SESSION_NAME"] = f"{folder}/{notebook.name}.ipynb"
        with running_kernel(env, folder) as it:
            ok(it.run(LOAD))
            yield it


LINE_ENDS = "\0\n\r\v\f\x1c\x1d\x1e\x85\u2028"
"""Characters that end the line of a magic in IPython (str.splitlines)."""


def given_back(kernel: Kernel, expression: str) -> object:
    """Return the value of an expression in the kernel."""
    return json.loads(ok(kernel.run(f"import json; print(json.dumps({expression}))")).text)


def test_hostile_arguments_and_brace_values_reach_the_job(kernel: Kernel) -> None:
    texts = hostile(40, "line", without=f"{LINE_ENDS}{{}}")
    words = " ".join(f"--env {shlex.quote(f'Q{n}={text}')}" for n, text in enumerate(texts))
    values = [*hostile(40, "braces"), "--detach", "--wait", "--fresh --name x", "x\n" * 10_000]
    ok(kernel.run(f"values = {values!r}"))
    ok(kernel.run("for n, value in enumerate(values): globals()[f'v{n}'] = value"))
    braces = " ".join(f"--env B{n}={{v{n}}}" for n in range(len(values)))
    ok(
        kernel.run(
            f"%%slurm {words} {braces} --comment={{v40}} --out told\n"
            "import os\ntold = {k: v for k, v in os.environ.items() if k[0] in 'QB'}"
        )
    )
    told = given_back(kernel, "told")
    assert isinstance(told, dict)
    assert [told[f"Q{n}"] for n in range(len(texts))] == texts
    assert [told[f"B{n}"] for n in range(len(values))] == values


def test_hostile_cell_texts_and_variables_round_trip(kernel: Kernel) -> None:
    texts = [*hostile(40, "cell", without=""), "\U0001f600" * (MIB // 4), "\udce9", "\0"]
    ok(kernel.run(f"texts = {texts!r}"))
    cell = "%%slurm --in texts --out same,back\nwritten = [\n"
    cell += "".join(f"{literal(text)},\n" for text in texts if text != "\udce9")
    cell += "]\nsame = written == [t for t in texts if t != '\\udce9']\nback = texts[::-1]"
    ok(kernel.run(cell))
    assert given_back(kernel, "[same, back == texts[::-1]]") == [True, True]


def test_hostile_output_is_shown(kernel: Kernel) -> None:
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
