"""JupyterLab in a real browser, on a real Slurm of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Playwright, sync_playwright

from jupyter_slurm.transport.ssh.route import CONFIG_VARIABLE
from tests.cluster.plugin import ROOT, SlurmCluster, jupyter_homes, running_cluster
from tests.cluster.started import started
from tests.ssh.sshd import free_port
from tests.ui.kept_page import KeptPage, new_context
from tests.ui.lab import Lab, Notebook, at_rest, running_lab
from tests.ui.side import Sbatch, open_sidebar

CHROMIUM = "/usr/bin/chromium-headless-shell"
"""Chromium without windows: the same engine, and no GTK to install."""
OPTIONS = """
    --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync
""".split()
_OF_PAGES_SOON_GONE = "--js-flags=--no-opt,--no-maglev,--min-semi-space-size=32"
"""No page of a test runs for so long that compiling it once more, for speed, or collecting garbage
in small steps would pay: a quarter of what it takes to load JupyterLab. Benchmarks do without."""
_PATIENT = ("MessageTimeout=60",)
"""A test looks at what is shown while Slurm's controller is silent."""
_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory, demo_image: Path) -> Iterator[SlurmCluster]:
    """One node with two GPUs; `python:3.11` is the demo's image. Of all modules: what a test leaves
    in its queue is cancelled, and a module that changes profiles has them `apart`."""
    home = tmp_path_factory.mktemp("cluster")
    spec = {"nodes": 1, "gpus": 2, "cpus": 8, "memory_mib": 16384, "extra_conf": _PATIENT}
    with ExitStack() as stack:
        begin = partial(running_cluster, home, **spec)
        cluster = started("A cluster for the browser", lambda: stack.enter_context(begin()))
        alias = [sys.executable, str(ROOT / "examples" / "alias.py"), "local", str(demo_image)]
        cluster.run(*alias, cwd=ROOT)
        yield cluster


@contextmanager
def home_of_a_lab(cluster: SlurmCluster) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder for a server, and the environment to start it with; its agent ends with it."""
    # Not pytest's own folder: a socket's path must be short.
    home = Path(tempfile.mkdtemp(prefix="ui-"))
    env = {
        **cluster.env,
        **jupyter_homes(home),
        "JUPYTER_CONFIG_DIR": cluster.env["JUPYTER_CONFIG_DIR"],
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": str(ROOT),
        CONFIG_VARIABLE: str(home / "ssh_config"),
    }
    (home / "ssh_config").touch()
    for name in ("JUPYTER_SLURM_AGENT", "SLURM_CONF", "JPY_SESSION_NAME"):
        env.pop(name, None)
    yield home, env
    stop = [sys.executable, "-m", "jupyter_slurm", "agent", "stop"]
    subprocess.run(stop, env=env, check=True, timeout=60, capture_output=True)
    shutil.rmtree(home)


@pytest.fixture(scope="package")
def lab_home(cluster: SlurmCluster) -> Iterator[tuple[Path, dict[str, str]]]:
    with home_of_a_lab(cluster) as made:
        yield made


@pytest.fixture(scope="package")
def lab(lab_home: tuple[Path, dict[str, str]], port: int) -> Iterator[Lab]:
    """Of all modules that leave it as it was; the others have one `apart`."""
    home, env = lab_home
    with running_lab(env, home, port) as running:
        yield running


@pytest.fixture
def opened_lab(page: Page, lab: Lab) -> Page:
    """A JupyterLab with nothing open but the launcher."""
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    return page


@pytest.fixture(autouse=True)
def ground(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test leaves to those after it: no kernel, no terminal, no setting of ours that was
    chosen, no job that waits or runs, no notebook: the next is again called Untitled."""
    fixtures = {"cluster", "lab"}.intersection(request.fixturenames)
    kept = {name: request.getfixturevalue(name) for name in fixtures}
    yield
    if isinstance(lab := kept.get("lab"), Lab):
        lab.end_kernels()
        shutil.rmtree(lab.folder.parent / "settings" / "jupyter-slurm", ignore_errors=True)
    if isinstance(cluster := kept.get("cluster"), SlurmCluster):
        empty_queue(cluster)
    if isinstance(lab, Lab):  # once no job saves one
        for notebook in lab.folder.glob("*.ipynb"):
            notebook.unlink()


def empty_queue(cluster: SlurmCluster) -> None:
    """Returns once nothing is in it."""
    left = cluster.run("squeue", "--noheader", "-o", "%A").stdout.split()
    if left:
        cluster.run("scancel", *left, check=False)
        cluster.run("sh", "-c", 'while [ "$(squeue --noheader)" ]; do sleep 0.2; done')


@pytest.fixture(scope="package")
def port() -> int:
    """Choose the port of the server that most modules have in common."""
    return free_port()


@pytest.fixture(scope="package")
def port_apart() -> int:
    """Choose the port that the servers of the others take in turn: the browser finds the compiled
    scripts of JupyterLab that it keeps by their address. Where somebody has taken the port
    meanwhile the server has another, and the browser compiles them again."""
    return free_port()


# The package's, not the session's: its event loop would be in the way of other tests' own loops.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """For all modules: of a server that has ended it keeps nothing but scripts (`KeptPage`)."""
    with launched(playwright) as running:
        yield running


@contextmanager
def chromium(options: Sequence[str] = ()) -> Iterator[Browser]:
    """Where no other Playwright runs: for tests that are not below this folder."""
    with sync_playwright() as playwright, launched(playwright, options=options) as running:
        yield running


@contextmanager
def launched(
    playwright: Playwright, program: str | Path = CHROMIUM, options: Sequence[str] = ()
) -> Iterator[Browser]:
    """`program`: what starts it."""
    args = [*OPTIONS, _OF_PAGES_SOON_GONE, *options]
    running = playwright.chromium.launch(executable_path=program, args=args)
    yield running
    running.close()


@pytest.fixture(scope="package")
def kept_page(browser: Browser) -> KeptPage:
    return KeptPage(browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    """As new. With the mark `own_page` it is one that no other test has had or will have."""
    if request.node.get_closest_marker("own_page"):
        with new_page(request.getfixturevalue("browser")) as page:
            yield page
        return
    kept: KeptPage = request.getfixturevalue("kept_page")
    page = kept.lend()
    yield page
    if request.node.stash[_FAILED]:  # nobody knows what state it is in
        page.context.close()
    else:
        kept.give_back(page)


@contextmanager
def new_page(browser: Browser) -> Iterator[Page]:
    """In a context of its own."""
    context = new_context(browser)
    yield context.new_page()
    context.close()


@pytest.fixture
def opened(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Callable[..., Notebook]:
    """`opened([source, …])`: a new notebook of these cells, loaded extension first."""

    def make(sources: Sequence[str]) -> Notebook:
        name = f"{request.node.name}.ipynb"
        lab.write(name, ["%load_ext jupyter_slurm", *sources])
        return Notebook(page, lab, name)

    return make


@pytest.fixture
def sidebar(page: Page, lab: Lab) -> Locator:
    return open_sidebar(page, lab)


@pytest.fixture
def sbatch(cluster: SlurmCluster) -> Iterator[Sbatch]:
    made = Sbatch(cluster)
    yield made
    if made.ids:
        cluster.run("scancel", *made.ids)
