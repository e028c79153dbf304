"""The Docker daemon that the modules of a worker share."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.docker import DockerEngine
from tests.cluster.docker_images import shell_only


def test_what_a_module_leaves_in_it_is_gone_for_the_next(
    docker_daemon: DockerEngine, tmp_path: Path
) -> None:
    engine = docker_daemon
    (tmp_path / "small").mkdir()
    engine.load(shell_only(tmp_path / "small"), "left:1")
    engine.run("tag", engine.image, "left:2")
    container = engine.run("create", "left:1", "/bin/sh").strip()
    engine.run("commit", container, "left:3")
    # Images of which another one is made, without a name: nobody lists them.
    engine.run("commit", engine.run("create", "left:3", "/bin/sh").strip(), "left:4")
    engine.run("rmi", "--force", "left:3")
    engine.run("volume", "create", "left")
    (engine.folder / "config").mkdir(exist_ok=True)
    (engine.folder / "config" / "config.json").write_text('{"auths": {}}')
    engine.clear()
    assert engine.containers() == []
    assert engine.run("images", "--all", "--format", "{{.Repository}}:{{.Tag}}").split() == [
        engine.image
    ]
    assert engine.run("volume", "ls", "--quiet") == ""
    assert not (engine.folder / "config").exists()
