"""The whole site: that the laptop gets in by password and code alone, and finds Slurm there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ssh.site import Home, Site
from tests.ssh.waiting import wait_until

# In the laptop's network; what it is asked for comes on stdin, what it found goes to stdout.
_LAPTOP = """
import json, socket, sys
import paramiko

asked = json.load(sys.stdin)
key = paramiko.Ed25519Key.from_private_key_file(asked["key"])


def answer(title, instructions, prompts):
    return [asked["password"] if "Password" in text else asked["code"] for text, _ in prompts]


def through(transport, host):
    channel = transport.open_channel("direct-tcpip", (host, 22), ("127.0.0.1", 0))
    inner = paramiko.Transport(channel)
    inner.connect(username=asked["user"], pkey=key)
    return inner


def said(transport, command):
    channel = transport.open_session()
    channel.exec_command(command)
    return channel.makefile().read().decode()


gateway = paramiko.Transport(socket.create_connection(("10.77.1.1", 22), 20))
gateway.start_client()
gateway.auth_interactive(asked["user"], answer)
login = through(gateway, "10.77.2.2")
node = through(login, "c1")
heard = [said(login, command) for command in asked["commands"]] + [said(node, "hostname")]
print(json.dumps(heard))
for one in (node, login, gateway):
    one.close()
"""


@pytest.fixture
def home(ssh_site: Site) -> Home:
    return ssh_site.home()


def on_laptop(
    site: Site, home: Home, *argv: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    pipe = subprocess.PIPE
    with site.laptop(list(argv), home, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        stdout, stderr = process.communicate(stdin, timeout=120)
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def test_password_and_code_lead_through_the_gateway_to_a_job_of_two_nodes(
    ssh_site: Site, home: Home
) -> None:
    before = ssh_site.logins()
    asked = {
        "user": ssh_site.person.account.name,
        "key": str(home.client.key),
        "password": ssh_site.person.password,
        "code": ssh_site.person.code(),
        "commands": [
            "hostname",
            "sbatch --parsable --wait -N2 --output=out --wrap 'srun hostname'; sort out",
        ],
    }
    done = on_laptop(ssh_site, home, sys.executable, "-c", _LAPTOP, stdin=json.dumps(asked))
    assert done.returncode == 0, done.stderr
    login, job, node = json.loads(done.stdout)
    assert (login, node) == ("login\n", "c1\n")
    assert job.split()[1:] == ["c1", "c2"]
    wait_until(lambda: ssh_site.logins() == before + 1)


@pytest.mark.parametrize("inside", ["10.77.2.1", "10.77.2.2", "10.77.2.11"])
def test_the_laptop_has_no_way_past_the_gateway(ssh_site: Site, home: Home, inside: str) -> None:
    code = f"import socket; socket.create_connection(({inside!r}, 22), 5)"
    done = on_laptop(ssh_site, home, sys.executable, "-c", code)
    assert "Network is unreachable" in done.stderr
    assert "default" not in ssh_site.laptop_machine.ip("route")


def test_the_gateway_passes_no_packets_on(ssh_site: Site, home: Home) -> None:
    laptop = ssh_site.laptop_machine
    laptop.ip("route", "add", "10.77.2.0/24", "via", "10.77.1.1")
    try:
        code = "import socket; socket.create_connection(('10.77.2.2', 22), 1)"
        done = on_laptop(ssh_site, home, sys.executable, "-c", code)
        assert done.returncode != 0
    finally:
        laptop.ip("route", "del", "10.77.2.0/24")


def test_the_laptop_cannot_see_the_sites_files(ssh_site: Site, home: Home) -> None:
    account = ssh_site.person.account
    account.write("there", "x")
    done = on_laptop(ssh_site, home, "ls", str(account.home))
    assert done.returncode != 0
    assert ssh_site.run("cat", "there").stdout == "x"


def test_a_cut_line_passes_nothing_and_a_healed_one_does(ssh_site: Site, home: Home) -> None:
    code = "import socket; print(socket.create_connection(('10.77.1.1', 22), {}).recv(3))"
    ssh_site.cut()
    try:
        assert (
            "timed out" in on_laptop(ssh_site, home, sys.executable, "-c", code.format(0.5)).stderr
        )
    finally:
        ssh_site.heal()
    done = on_laptop(ssh_site, home, sys.executable, "-c", code.format(20))
    assert done.stdout == "b'SSH'\n", done.stderr


def test_gateway_restarted_takes_new_connections(ssh_site: Site, home: Home) -> None:
    ssh_site.restart_gateway()
    assert ssh_site.gateway.pids() == []
    code = "import socket; print(socket.create_connection(('10.77.1.1', 22), 20).recv(3))"
    assert on_laptop(ssh_site, home, sys.executable, "-c", code).stdout == "b'SSH'\n"


def test_load_on_the_far_side_is_counted(ssh_site: Site) -> None:
    ssh_site.wait_until_empty("login")  # of what a laptop has left that was here before
    ssh_site.forget_rpcs()
    ssh_site.run("squeue")
    ssh_site.run("squeue")
    assert ssh_site.rpcs()["REQUEST_JOB_INFO"] == 2
    assert ssh_site.processes() == []


def test_ssh_finds_its_way_with_a_homes_configuration(ssh_site: Site, home: Home) -> None:
    done = subprocess.run(
        ["ssh", "-G", "-F", home.client.config, "c1"], capture_output=True, text=True, check=True
    )
    assert "hostname 10.77.2.11\n" in done.stdout
    assert "proxyjump login\n" in done.stdout
    assert Path(home.write_profile(runtime="none")).read_text().startswith("host = ")


_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 22), 20)"


def test_nodes_that_are_closed_take_slurm_alone(ssh_site: Site) -> None:
    def connects() -> bool:
        done = ssh_site.run("python3", "-c", _CONNECT, "c1", check=False)
        assert done.returncode == 0 or "ConnectionRefusedError" in done.stderr, done.stderr
        return done.returncode == 0

    with ssh_site.closed_nodes():
        assert not connects()
        assert ssh_site.run("srun", "--nodelist", "c1", "hostname").stdout == "c1\n"
    assert connects()
