"""Messages and records of a remote kernel, without a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_slurm import places
from jupyter_slurm.cli import main
from jupyter_slurm.commands.arguments import read_arguments
from jupyter_slurm.commands.submitting import KERNEL_ADD
from jupyter_slurm.errors import (
    NotFoundError,
    RequestError,
)
from jupyter_slurm.kernel import registry, spec
from jupyter_slurm.kernel.messages import Signer, made
from jupyter_slurm.kernel.registry import Kernel
from jupyter_slurm.wire import Cluster, RemoteKernel

WORDS = ("--cluster", "arandu", "--gpus", "1")
CLUSTERS = (
    Cluster(name="arandu", host="a", runtime="docker", origin="", default=True),
    Cluster(name="other", host="b", runtime="docker", origin="", default=False),
)


def meant(words: Sequence[str]) -> RemoteKernel:
    return spec.meant(read_arguments(KERNEL_ADD, words), CLUSTERS)


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "CONFIG", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))


@pytest.mark.parametrize("word", ["--in=x", "--detach", "--session", "--nosuch", "--time=soon"])
def test_invalid_kernel_options_are_rejected(word: str) -> None:
    with pytest.raises(RequestError):
        spec.parse([word])


def test_kernelspec_is_written_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = meant(["--gpus", "1"])
    assert made == RemoteKernel(
        name="slurm-arandu-1-gpu",
        display_name="Python 3 (arandu · 1 GPU)",
        words=WORDS,
        cluster="arandu",
        exists=False,
    )
    assert spec.listed() == []
    spec.add(made)
    made_spec = meant(WORDS)
    assert made_spec.exists
    told = json.loads((tmp_path / "data/kernels/slurm-arandu-1-gpu/kernel.json").read_text())
    assert told["argv"][0] == sys.executable
    assert told["argv"][-1] == "{connection_file}"
    assert told["interrupt_mode"] == "message"
    assert spec.listed() == [made_spec]
    assert main(["kernel", "list"]) == 0
    assert "--cluster arandu --gpus 1" in capsys.readouterr().out
    assert main(["kernel", "remove", "slurm-arandu-1-gpu"]) == 0
    assert spec.listed() == []
    assert main(["kernel", "remove", "slurm-arandu-1-gpu"]) == 1


def test_kernel_without_a_default_cluster_must_name_its_cluster() -> None:
    args = read_arguments(KERNEL_ADD, ["--gpus", "1"])
    with pytest.raises(NotFoundError) as raised:
        spec.meant(args, CLUSTERS[1:])
    assert "--cluster" in str(raised.value.hint)


def test_foreign_kernelspec_is_not_changed(tmp_path: Path) -> None:
    folder = tmp_path / "data/kernels/python3"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text('{"argv": ["python", "-m", "ipykernel_launcher"]}')
    with pytest.raises(RequestError, match="already has the name"):
        meant(["--name", "python3"])
    with pytest.raises(RequestError, match="already has the name"):
        spec.add(RemoteKernel(name="python3", display_name="mine", words=WORDS))
    assert spec.listed() == []


@pytest.mark.parametrize("name", ["..", "../else", "With Blank", "x" * 65, "a/b"])
def test_invalid_kernel_name_is_rejected(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        meant(["--name", name])
    assert refused.value.option == "name"


def test_kernel_on_an_unknown_cluster_is_rejected() -> None:
    with pytest.raises(NotFoundError, match="`nosuch`"):
        meant(["--cluster", "nosuch"])


def test_kernel_is_found_by_connection_file_then_by_notebook() -> None:
    first = registry.opened(Path("/run/kernel-1.json"), WORDS, "/a.ipynb")
    first.keep(Kernel(job_id="abcdefgh", words=WORDS, notebook="/a.ipynb"))
    path = next(places.data_dir().glob("kernels/*.json"))
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    while_held = registry.opened(Path("/run/kernel-2.json"), WORDS, "/a.ipynb")
    assert while_held.kernel is None
    first.close()
    same = registry.opened(Path("/run/kernel-1.json"), WORDS, None)
    assert same.kernel is not None
    same.close()
    for words_, notebook in ((("--gpus", "2"), "/a.ipynb"), (WORDS, "/b.ipynb"), (WORDS, None)):
        other = registry.opened(Path("/run/kernel-3.json"), words_, notebook)
        assert other.kernel is None
        other.close()
    found = registry.opened(Path("/run/kernel-4.json"), WORDS, "/a.ipynb")
    assert found.kernel == same.kernel
    assert not path.exists()
    for one in (while_held, found):
        one.forget()
        one.close()


def test_ended_kernel_is_not_found_again() -> None:
    ended = registry.opened(Path("/run/kernel-1.json"), WORDS, "/a.ipynb")
    ended.keep(Kernel(job_id="abcdefgh", words=WORDS, notebook="/a.ipynb", released=True))
    ended.close()
    other = registry.opened(Path("/run/kernel-2.json"), WORDS, "/a.ipynb")
    assert other.kernel is None
    other.close()


def test_kernel_info_is_reused_for_the_next_kernel() -> None:
    first = registry.opened(Path("/run/kernel-1.json"), WORDS, None)
    assert first.expected is None
    first.keep(Kernel(job_id="abcdefgh", words=WORDS))
    first.learn({"supported_features": ["debugger"]})
    assert first.kernel is not None
    assert first.kernel.info == {"supported_features": ["debugger"]}
    first.forget()
    first.close()
    for words_, expected in ((WORDS, {"supported_features": ["debugger"]}), (("-c", "b"), None)):
        other = registry.opened(Path("/run/kernel-2.json"), words_, None)
        assert other.expected == expected
        other.forget()
        other.close()


def test_message_with_a_wrong_signature_is_dropped() -> None:
    ours, theirs = Signer("hmac-sha256", b"ours"), Signer("hmac-sha256", b"theirs")
    message = made("execute_request", {"code": "1"}, session="s", identities=(b"who",))
    assert ours.message(ours.parts(message)) == message
    assert ours.message(theirs.parts(message)) is None
    assert ours.message([b"no", b"message"]) is None
    with pytest.raises(ValueError, match="hmac-nosuch"):
        Signer("hmac-nosuch", b"")
