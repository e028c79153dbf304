"""A kernel in a job over SSH, behind a login, and in an image."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jupyter_slurm.wire import ConnectionState
from tests.kernel.conftest import PATIENCE_S, Home, MakeHome, RemoteKernel
from tests.ssh.profile import SshSlurm

SITE = Path(sys.prefix) / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
"""What the tests' own kernel is made of."""


def test_over_ssh_and_a_line_that_is_closed(
    make_home: MakeHome, ssh_slurm: SshSlurm, tmp_path: Path
) -> None:
    home = make_home(far=ssh_slurm)
    home.add("--mem", "1G")
    kernel = home.start()
    kernel.value("kept = 1; print()")
    assert kernel.run("print('y' * 5_000_000)").text == "y" * 5_000_000 + "\n"
    go = tmp_path / "go"
    request = kernel.start(
        "import pathlib, time\nfor i in range(60):\n    print(i, flush=True); time.sleep(.05)\n"
        f"    while i > 30 and not pathlib.Path({str(go)!r}).exists(): time.sleep(.05)\nkept"
    )
    kernel.until(lambda m: m["msg_type"] == "stream" and "5" in m["content"]["text"])
    assert home.api.disconnect().state is ConnectionState.LOGIN_NEEDED
    shown = kernel.until_shown(request, "jupyter slurm login")["content"]["data"]["text/plain"]
    assert "closed until you log in again" in shown
    assert home.api.connections()[0].state is ConnectionState.LOGIN_NEEDED
    go.touch()
    home.api.connect(wait_s=30)
    reply = kernel.reply(request)
    assert reply.text == "".join(f"{i}\n" for i in range(60))
    assert len(home.jobs()) == 1
    job = kernel.job()
    kernel.manager.shutdown_kernel()
    home.until_job(job.id)


def test_a_login_that_is_needed_is_told_and_goes_on_by_itself(
    make_home: MakeHome, ssh_slurm: SshSlurm
) -> None:
    home = make_home(far=ssh_slurm)
    home.add()
    home.api.disconnect()
    kernel = home.start()
    request = kernel.start("print('after the login')")
    kernel.until_shown(request, "jupyter slurm login")
    assert home.jobs() == [] or home.jobs()[0].slurm_id is None
    home.api.connect(wait_s=30)
    assert kernel.reply(request).text == "after the login\n"
    assert len(home.jobs()) == 1


def test_in_an_image(home: Home, demo_image: Path) -> None:
    home.add(
        *("--image", str(demo_image), "--mem", "1G", "--name", "far"),
        *("--mount", f"{sys.prefix}:/mnt/venv"),
        *("--env", f"PYTHONPATH=/mnt/venv/{SITE.relative_to(sys.prefix)}"),
    )
    kernel = home.start()
    assert kernel.value("import sys; print(sys.executable)") == "/usr/bin/python3\n"
    assert "mnt" in kernel.value("import os; print(os.listdir('/'))")
    request = kernel.start("print('begun', flush=True)\nimport time; time.sleep(1000)")
    kernel.until(lambda m: m["msg_type"] == "stream" and "begun" in m["content"]["text"])
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request).content["ename"] == "KeyboardInterrupt"
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=PATIENCE_S)
    assert kernel.value("print(1)") == "1\n"


def test_an_image_without_ipykernel_is_told_with_the_remedy(home: Home, demo_image: Path) -> None:
    home.add("--image", str(demo_image))
    reply = home.start().run("1")
    assert reply.content["ename"] == "JobEnded"
    assert "The image's Python has no ipykernel" in reply.content["evalue"]
    assert "%%slurm_image" in "".join(reply.content["traceback"])


def test_what_a_kernel_can_do_is_told_before_the_next_one_runs(
    make_home: MakeHome, ssh_slurm: SshSlurm
) -> None:
    home = make_home(far=ssh_slurm)
    home.add()
    first = home.start()
    first.value("print()")
    assert features(first) == {"debugger", "kernel subshells"}
    first.manager.shutdown_kernel()
    home.api.disconnect()  # so the next one cannot run yet
    kernel = home.start()
    assert features(kernel) == {"debugger", "kernel subshells"}

    begun = kernel.request("debug_request", debug("initialize", pathFormat="path"))
    asked = kernel.request("debug_request", debug("debugInfo"))
    assert kernel.control_reply(asked)["content"]["body"]["isStarted"] is False
    home.api.connect(wait_s=30)
    reply = kernel.control_reply(begun)["content"]
    assert reply["body"]["supportsConditionalBreakpoints"], reply


def features(kernel: RemoteKernel) -> set[str]:
    info = kernel.client.kernel_info(reply=True, timeout=60)["content"]
    return set(info["supported_features"])


def debug(command: str, **arguments: str) -> dict[str, Any]:
    """A request of the debugger's, as JupyterLab sends it."""
    return {"type": "request", "seq": 1, "command": command, "arguments": arguments}
