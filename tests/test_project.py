"""The project's documents, notebook and packaging."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jupyter_slurm

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jupyter_slurm"


def named_in_map(document: str) -> set[str]:
    """Return a document's paths in backticks: `api.py`, `jobs/service.py`, folders `slurm/`.

    If a line has `jobs/records/registry.py` `changes.py`, both are in the same folder.
    """
    text = (ROOT / document).read_text(encoding="utf-8")
    names: set[str] = set()
    for line in text.splitlines():
        folder = ""
        for path in re.findall(r"`([A-Za-z0-9_/.]+(?:\.py|/))`", line):
            names.add(path if "/" in path else folder + path)
            folder = path.rpartition("/")[0] + "/" if "/" in path[:-1] else folder
    return names


@pytest.mark.parametrize(
    "document",
    ["ARCHITECTURE.md", "docs/contributing/protocols.md", "docs/contributing/streams.md"],
)
def test_documents_name_only_existing_files(document: str) -> None:
    tops = ("jupyter_slurm", "tests", "scripts", "examples")
    files = [path for top in tops for path in (ROOT / top).rglob("*")]
    ends = {f"/{path.relative_to(ROOT)}" for path in files} | {f"/{top}" for top in tops}
    gone = [
        name
        for name in sorted(named_in_map(document))
        if not any(end.endswith(f"/{name.rstrip('/')}") for end in ends)
    ]
    assert not gone


def test_node_files_need_only_the_standard_library() -> None:
    paths = sorted((PACKAGE / "node").glob("*.py"))
    siblings = {one.stem for one in paths}
    where_there = {
        "IPython",
        "cloudpickle",
        "zmq",
        "matplotlib",
        "matplotlib_inline",
        "numpy",
        "pandas",
        "polars",
        "pyarrow",
        "traitlets",
        "torch",
        "ray",
        "dask",
        "distributed",
        "tornado",
        "tensorboard",
        "werkzeug",
    }
    known = siblings | set(sys.stdlib_module_names) | where_there
    assert [
        (path.name, name)
        for path in paths
        for name in imported(path)
        if name.split(".")[0] not in known
    ] == []


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or ".")
    return names


def test_link_targets_in_documents_exist() -> None:
    for document in ROOT.glob("*.md"):
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)", text):
            assert target.startswith("https://") or (ROOT / target).exists(), (document, target)


def test_importing_the_package_does_not_load_heavy_modules() -> None:
    code = "import sys, jupyter_slurm; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {"IPython", "msgspec", "tornado", "asyncio"}.isdisjoint(done.stdout.split())


def test_completion_shows_the_public_names() -> None:
    shown = {name for name in dir(jupyter_slurm) if not name.startswith("__")}
    assert shown == {*jupyter_slurm.__all__} - {"__version__"}
    assert all(getattr(jupyter_slurm, name) is not None for name in jupyter_slurm.__all__)


def test_binder_uses_a_supported_python() -> None:
    version = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.search(r'^requires-python = ">=3\.(\d+)"$', project, re.MULTILINE)
    assert needed is not None
    assert int(version.removeprefix("python-3.")) >= int(needed[1])


def test_changelog_and_conda_recipe_have_the_packages_version() -> None:
    version = json.loads((ROOT / "labextension" / "package.json").read_text())["version"]
    changes = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes is not None
    assert changes[1] == version
    assert f'  version: "{version}"\n' in (ROOT / "recipe" / "recipe.yaml").read_text()


def test_conda_recipe_has_the_packages_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {f"python {project['requires-python']}"}
    for one in project["dependencies"]:
        name, bound = re.fullmatch(r"([\w-]+)(.*)", one).groups()  # type: ignore[union-attr]
        wanted.add(f"{_CONDA_NAMES.get(name, name)} {bound}")
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    run = recipe.partition("\n  run:\n")[2].partition("\n\n")[0]
    assert {line.strip().removeprefix("- ") for line in run.splitlines()} == wanted


_CONDA_NAMES = {"jupyter-server": "jupyter_server"}


def test_release_steps_run_scripts_in_this_repository() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    steps = re.findall(r"scripts/\w+[^\"\n]*", workflow)
    assert len(steps) >= 7
    for script, *words in (step.split() for step in steps):
        text = (ROOT / script).read_text()
        assert [word for word in words if not re.search(rf"\b{word}\b.*[|)]", text)] == []


def test_claims_in_security_md_name_existing_code_and_tests() -> None:
    wrong = []
    for row in (ROOT / "SECURITY.md").read_text().splitlines():
        if row.startswith("| ") and not row.startswith("| claim"):
            _, _, places, tests, _ = row.split("|")
            wrong += [place for place in _named(places) if not _is_there(place)]
            file = Path()
            for path, _, function in (one.partition("::") for one in _named(tests)):
                if path:
                    file = ROOT / (path if "/" in path else f"tests/attacks/{path}")
                wanted = f"def {function}" if function else "test"
                if not file.is_file() or wanted not in file.read_text():
                    wrong.append(f"{file}::{function}")
            if not _named(tests):
                wrong.append(row)
    assert wrong == []


def _named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _is_there(place: str) -> bool:
    """Return whether the text is a file or folder of the package, or a name in one of its
    modules."""
    module, _, name = place.partition(".")
    file = ROOT / "jupyter_slurm" / f"{module}.py"
    named = file.is_file() and name in file.read_text()
    return named or any((top / place).exists() for top in (ROOT, ROOT / "jupyter_slurm"))
