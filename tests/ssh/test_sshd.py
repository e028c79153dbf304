"""The sshds, lines and users that other tests stand on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import paramiko
import psutil
import pytest

from tests.ssh.plugin import Delayed, MakeSshd
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until


def ssh(
    sshd: Sshd, *command: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-F", str(sshd.config), *options, sshd.alias, *command],
        env=sshd.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def connected(sshd: Sshd, port: int | None = None) -> paramiko.Transport:
    sock = socket.create_connection((sshd.host, port or sshd.port), timeout=20)
    transport = paramiko.Transport(sock)
    transport.connect(username=sshd.user, pkey=paramiko.Ed25519Key.from_private_key_file(sshd.key))
    return transport


def test_its_user_logs_in_with_the_clients_key_and_runs_programs_at_home(sshd: Sshd) -> None:
    done = ssh(sshd, "id -un; pwd")
    assert done.stdout.splitlines() == [sshd.user, str(sshd.account.home)], done.stderr


def test_further_lines_win_and_match_holds_for_what_it_names(make_sshd: MakeSshd) -> None:
    one = make_sshd("MaxSessions 1", "Match User nobody", "ForceCommand false")
    transport = connected(one)
    first = transport.open_session()
    with pytest.raises(paramiko.ChannelException):
        transport.open_session()
    first.close()
    transport.close()
    assert ssh(one, "echo ok").stdout == "ok\n"


def test_stopped_it_refuses_and_drops_and_starts_again_on_its_port(make_sshd: MakeSshd) -> None:
    one = make_sshd()
    transport = connected(one)
    assert len(one.pids()) == 1
    wait_until(lambda: one.logins() == 1)
    one.stop()
    transport.join(20)
    assert not transport.is_alive()
    assert one.pids() == []
    assert ssh(one, "true").returncode == 255
    one.start()
    assert ssh(one, "true").returncode == 0
    wait_until(lambda: one.logins() == 2)


def test_sessions_outlive_a_listener_that_has_stopped(make_sshd: MakeSshd) -> None:
    one = make_sshd()
    transport = connected(one)
    one.stop_listening()
    channel = transport.open_session()
    channel.exec_command("echo there")
    assert channel.makefile().read() == b"there\n"
    assert ssh(one, "true").returncode == 255
    transport.close()


def test_a_user_gets_the_login_shell_that_was_asked_for(make_sshd: MakeSshd) -> None:
    one = make_sshd(shell="/bin/dash")
    assert ssh(one, "echo $0").stdout.strip().endswith("dash")


def test_a_slow_line_takes_its_time_and_loses_nothing(sshd: Sshd, delayed: Delayed) -> None:
    line = delayed(sshd.port, 0.05)
    transport = connected(sshd, line.port)
    channel = transport.open_session()
    channel.exec_command("cat")
    began_s = time.monotonic()
    channel.sendall(b"x")
    assert channel.recv(1) == b"x"
    assert time.monotonic() - began_s >= 0.1
    sent = os.urandom(2**20)
    got = bytearray()
    channel.setblocking(True)
    for start in range(0, len(sent), 2**16):
        channel.sendall(sent[start : start + 2**16])
        while len(got) < start:
            got += channel.recv(2**16)
    channel.shutdown_write()
    while piece := channel.recv(2**16):
        got += piece
    assert got == sent
    transport.close()


def test_a_line_of_a_certain_rate_is_no_faster(sshd: Sshd, delayed: Delayed) -> None:
    line = delayed(sshd.port, 0.0, 1e6)
    transport = connected(sshd, line.port)
    channel = transport.open_session()
    began_s = time.monotonic()
    channel.exec_command("head -c 500000 /dev/zero")
    assert len(channel.makefile().read()) == 500_000
    assert time.monotonic() - began_s >= 0.45
    transport.close()


def test_a_frozen_line_passes_nothing_until_it_thaws(sshd: Sshd, delayed: Delayed) -> None:
    line = delayed(sshd.port, 0.001)
    transport = connected(sshd, line.port)
    channel = transport.open_session()
    channel.exec_command("cat")
    line.freeze()
    channel.sendall(b"x")
    channel.settimeout(0.3)
    with pytest.raises(TimeoutError):
        channel.recv(1)
    line.thaw()
    channel.settimeout(20)
    assert channel.recv(1) == b"x"
    transport.close()


def test_a_cut_line_drops_who_is_on_it_and_takes_new_ones(sshd: Sshd, delayed: Delayed) -> None:
    line = delayed(sshd.port, 0.001)
    transport = connected(sshd, line.port)
    line.cut()
    transport.join(20)
    assert not transport.is_alive()
    again = connected(sshd, line.port)
    assert again.is_authenticated()
    again.close()


def test_what_was_kept_is_gone_when_its_owner_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "ended"
    # What it starts detaches itself, and has a child that is nobody's.
    detached = "setsid sh -c 'sleep 600 & echo $! $$; exec sleep 600' & exit"
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from tests.ssh.kept import keeping\n"
        "with keeping() as keeper:\n"
        "    keeper.at_end('touch', sys.argv[1])\n"
        "    keeper.start(['sh', '-c', sys.argv[2]], Path(sys.argv[3]))\n"
        "    print('started', flush=True)\n"
        "    time.sleep(600)\n"
    )
    log = tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(mark), detached, str(log)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "started\n"
        wait_until(lambda: log.read_text().endswith("\n"))
        pids = [int(word) for word in log.read_text().split()]
        assert all(map(psutil.pid_exists, pids))
        owner.kill()
    wait_until(mark.exists)
    assert not any(map(psutil.pid_exists, pids))
