"""The host names in an ssh_config."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.profiles.ssh_hosts import ssh_hosts


@pytest.mark.real
def test_hosts_in_the_ssh_config_are_read_as_ssh_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JUPYTER_SLURM_SSH_CONFIG", raising=False)
    folder = tmp_path / ".ssh"
    (folder / "more").mkdir(parents=True)
    (folder / "config").write_text(
        '# comment\nHost a "b c" *.org !x\nInclude more/* ~/.ssh/other\nhost=d\nHost a\n'
        "Include config\nMatch host z\nHost 'open\n"
    )
    (folder / "more" / "1").write_text("Host m1\n")
    (folder / "more" / "2").write_text("Host m2\n")
    (folder / "other").write_text("Host o\n")
    assert ssh_hosts() == ["a", "b c", "m1", "m2", "o", "d"]
    monkeypatch.setenv("JUPYTER_SLURM_SSH_CONFIG", str(folder / "other"))
    assert ssh_hosts() == ["o"]
    with monkeypatch.context() as without_ssh:
        without_ssh.setenv("PATH", "")
        assert ssh_hosts() == [], "the meaning of the names is unknown"
    (folder / "other").unlink()
    assert ssh_hosts() == []
