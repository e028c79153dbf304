"""Real sshds for tests, and slow lines to them: `sshd` (one for each pytest process) and
`make_sshd`.

Use `sshd` in tests that leave it unchanged. As root it serves a user created for it, whose home
tests may change. Otherwise it serves the user who runs the tests, since sshd needs root to serve
other users.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

import pytest

from tests.cluster.plugin import SlurmCluster
from tests.ssh.accounts import PLAIN_SHELL, Account, make_account, make_folder, oneself
from tests.ssh.kept import Keeper, keeping
from tests.ssh.laptop import Laptop
from tests.ssh.network import possible
from tests.ssh.odd_users import KINDS, Person, make_gateway, make_odd_user
from tests.ssh.profile import SshSlurm
from tests.ssh.site import Site, make_site
from tests.ssh.slow_line import SlowLine, lay
from tests.ssh.sshd import Sshd


class MakeSshd(Protocol):
    def __call__(
        self, *lines: str, shell: str | None = None, account: Account | None = None
    ) -> Sshd:
        """Start an sshd for this test with `lines` in its sshd_config(5). As root, it serves a new
        user with the login shell `shell`, or the user `account`."""


class Delayed(Protocol):
    def __call__(self, port: int, one_way_s: float, bytes_per_s: float | None = None) -> SlowLine:
        """Start a slow line to `port` of this machine."""


class MakeGateway(Protocol):
    def __call__(self, *stages: Literal["password", "code"]) -> Sshd:
        """Start an sshd that asks `person` these questions through PAM (default: password and
        code). It needs the packages for one-time codes."""


@pytest.fixture(scope="session")
def ssh_keeper() -> Iterator[Keeper]:
    with keeping() as keeper:
        yield keeper


@pytest.fixture(scope="session")
def ssh_folder(ssh_keeper: Keeper) -> Path:
    """Yield the folder of this pytest process's SSH files."""
    return make_folder(ssh_keeper, "ssh-")


@pytest.fixture(scope="session")
def sshd(ssh_keeper: Keeper, ssh_folder: Path) -> Sshd:
    """Yield the shared sshd."""
    account = make_account(ssh_keeper, ssh_folder) if os.geteuid() == 0 else oneself()
    return _running(ssh_keeper, ssh_folder / "shared", account, ())


@pytest.fixture
def make_sshd(
    ssh_keeper: Keeper, ssh_folder: Path, request: pytest.FixtureRequest
) -> Iterator[MakeSshd]:
    made: list[Sshd] = []

    def make(*lines: str, shell: str | None = None, account: Account | None = None) -> Sshd:
        if account is None:
            account = _account(ssh_keeper, ssh_folder, request, shell)
        folder = ssh_folder / f"sshd-{next(_NUMBERS)}"
        made.append(_running(ssh_keeper, folder, account, lines))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def delayed(ssh_keeper: Keeper, ssh_folder: Path) -> Iterator[Delayed]:
    laid: list[SlowLine] = []

    def make(port: int, one_way_s: float, bytes_per_s: float | None = None) -> SlowLine:
        laid.append(lay(ssh_keeper, ssh_folder, port, one_way_s, bytes_per_s))
        return laid[-1]

    yield make
    for line in laid:
        line.end()


@pytest.fixture(scope="session", params=KINDS)
def odd_sshd(request: pytest.FixtureRequest, ssh_keeper: Keeper, ssh_folder: Path) -> Sshd:
    """Yield an sshd for each kind of odd user; tests run once for each kind."""
    _only_as_root()
    account = make_odd_user(ssh_keeper, ssh_folder, request.param)
    return _running(ssh_keeper, ssh_folder / f"odd-{next(_NUMBERS)}", account, ())


@pytest.fixture
def person(ssh_keeper: Keeper, ssh_folder: Path) -> Person:
    """Yield a user with a password and one-time codes, for this test."""
    _only_as_root()
    return Person.make(ssh_keeper, ssh_folder)


@pytest.fixture
def gateway(ssh_keeper: Keeper, ssh_folder: Path, person: Person) -> Iterator[MakeGateway]:
    """Yield a factory of sshds that ask for more than a key."""
    made: list[Sshd] = []

    def make(*stages: Literal["password", "code"]) -> Sshd:
        folder = ssh_folder / f"gateway-{next(_NUMBERS)}"
        asked = stages or ("password", "code")
        made.append(make_gateway(ssh_keeper, folder, person, asked))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture(scope="session")
def ssh_slurm(ssh_keeper: Keeper, ssh_folder: Path, slurm_cluster: SlurmCluster) -> SshSlurm:
    """Yield the shared private cluster over SSH. Its jobs belong to the user who runs the tests."""
    sshd = _running(ssh_keeper, ssh_folder / "slurm", oneself(), (PLAIN_SHELL,))
    return SshSlurm(slurm_cluster, sshd)


@pytest.fixture(scope="session")
def ssh_site(ssh_keeper: Keeper, ssh_folder: Path) -> Site:
    """Yield the shared site. Tests undo their changes to it, and each uses its own `home()`."""
    if not possible():
        pytest.skip("Network namespaces need root and a machine that permits them.")
    return make_site(ssh_keeper, ssh_folder / "site")


@pytest.fixture
def laptop(ssh_site: Site) -> Iterator[Laptop]:
    """Yield a laptop before the first login. Its agent ends with the test."""
    laptop = Laptop(ssh_site)
    yield laptop
    laptop.close()


_NUMBERS = itertools.count(1)


def _running(keeper: Keeper, folder: Path, account: Account, lines: tuple[str, ...]) -> Sshd:
    folder.mkdir(mode=0o711)
    sshd = Sshd(keeper, folder, account, lines)
    sshd.start()
    return sshd


def _account(
    keeper: Keeper, folder: Path, request: pytest.FixtureRequest, shell: str | None
) -> Account:
    if os.geteuid() == 0:
        if shell is not None:
            return make_account(keeper, folder, shell)
        shared: Sshd = request.getfixturevalue("sshd")
        return shared.account
    if shell is not None:
        _only_as_root()
    return oneself()


def _only_as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root can make users and sshds that log in others.")
