"""JupyterLab in a real browser, on its own real Slurm."""

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
"""Headless Chromium: the same engine, without GTK."""
OPTIONS = """
    --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync
""".split()
_OF_PAGES_SOON_GONE = "--js-flags=--no-opt,--no-maglev,--min-semi-space-size=32"
"""Options that disable optimising compilation and incremental garbage collection. For short-lived
pages these cost a quarter of JupyterLab's load time. Benchmarks do not use the options."""
_PATIENT = ("MessageTimeout=60",)
"""Timeout while Slurm's controller is silent."""
_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory, demo_image: Path) -> Iterator[SlurmCluster]:
    """The cluster of all modules: one node with two GPUs; `python:3.11` is the demo's image. Jobs
    that remain in its queue are cancelled. Modules that change profiles use `apart`."""
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
    """Yield a server's folder and environment. Its agent ends with it."""
    # Not in pytest's folder, since a socket's path must be short.
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
    """The JupyterLab of modules that do not change it. Other modules use `apart`."""
    home, env = lab_home
    with running_lab(env, home, port) as running:
        yield running


@pytest.fixture
def opened_lab(page: Page, lab: Lab) -> Page:
    """Open JupyterLab with only the launcher."""
    page.goto(f"{lab.url}lab?token={lab.token}&reset")
    at_rest(page)
    return page


@pytest.fixture(autouse=True)
def ground(request: pytest.FixtureRequest) -> Iterator[None]:
    """Clean up after a test: remove kernels, terminals, our settings, live jobs and notebooks, so
    that the next notebook is called Untitled again."""
    fixtures = {"cluster", "lab"}.intersection(request.fixturenames)
    kept = {name: request.getfixturevalue(name) for name in fixtures}
    yield
    if isinstance(lab := kept.get("lab"), Lab):
        lab.end_kernels()
        shutil.rmtree(lab.folder.parent / "settings" / "jupyter-slurm", ignore_errors=True)
    if isinstance(cluster := kept.get("cluster"), SlurmCluster):
        empty_queue(cluster)
    if isinstance(lab, Lab):  # when no job saves a notebook any more
        for notebook in lab.folder.glob("*.ipynb"):
            notebook.unlink()


def empty_queue(cluster: SlurmCluster) -> None:
    """Cancel all jobs, and return when the queue is empty."""
    left = cluster.run("squeue", "--noheader", "-o", "%A").stdout.split()
    if left:
        cluster.run("scancel", *left, check=False)
        cluster.run("sh", "-c", 'while [ "$(squeue --noheader)" ]; do sleep 0.2; done')


@pytest.fixture(scope="package")
def port() -> int:
    """Choose the port of the server that most modules share."""
    return free_port()


@pytest.fixture(scope="package")
def port_apart() -> int:
    """Choose the port that the other servers use in turn, because the browser caches JupyterLab's
    compiled scripts by address. If another program takes the port, the server uses another port,
    and the browser compiles again."""
    return free_port()


# The scope is the package, not the session, since its event loop would disturb the loops of other
# tests.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """The browser of all modules. It keeps only the scripts of ended servers (`KeptPage`)."""
    with launched(playwright) as running:
        yield running


@contextmanager
def chromium(options: Sequence[str] = ()) -> Iterator[Browser]:
    """Run Chromium for tests outside of this folder, where no other Playwright runs."""
    with sync_playwright() as playwright, launched(playwright, options=options) as running:
        yield running


@contextmanager
def launched(
    playwright: Playwright, program: str | Path = CHROMIUM, options: Sequence[str] = ()
) -> Iterator[Browser]:
    """Launch the browser, which `program` starts."""
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
    """Yield a clean page. With the mark `own_page`, yield a page that no other test uses."""
    if request.node.get_closest_marker("own_page"):
        with new_page(request.getfixturevalue("browser")) as page:
            yield page
        return
    kept: KeptPage = request.getfixturevalue("kept_page")
    page = kept.lend()
    yield page
    if request.node.stash[_FAILED]:  # the page's state is unknown
        page.context.close()
    else:
        kept.give_back(page)


@contextmanager
def new_page(browser: Browser) -> Iterator[Page]:
    """Yield a page in its own context."""
    context = new_context(browser)
    yield context.new_page()
    context.close()


@pytest.fixture
def opened(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Callable[..., Notebook]:
    """Return a function: `opened([source, …])` opens a notebook of these cells, and has loaded the
    extension."""

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
