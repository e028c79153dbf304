"""The pages of docs/: their length, links, commands and profiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jupyter_slurm.commands.arguments import find, read_arguments
from jupyter_slurm.commands.image_line import parse_image
from jupyter_slurm.commands.line import parse
from jupyter_slurm.commands.parsing import split
from jupyter_slurm.commands.submitting import IMAGE_CELL
from jupyter_slurm.profiles import templates
from jupyter_slurm.profiles.reading import load_profiles
from jupyter_slurm.slurm.options import OPTIONS
from tests.docs.pages import DOCS, ROOT, Page, written

_WORDS_OF_A_PAGE = 1500
_WORDS_OF_A_PARAGRAPH = 90
_LINES_OF_THE_README = 75
PAGES = written()
DOCUMENTS = [Page(ROOT / name) for name in ("README.md", "CONTRIBUTING.md")]


def test_every_page_is_short() -> None:
    words = {path.name: len(path.read_text().split()) for path in DOCS.rglob("*.md")}
    assert {name for name, of_page in words.items() if of_page > _WORDS_OF_A_PAGE} == set()


def test_every_paragraph_is_short() -> None:
    long = [
        (page.name, len(one.split()), one[:50])
        for page in (*PAGES, *DOCUMENTS)
        for one in page.paragraphs()
        if len(one.split()) > _WORDS_OF_A_PARAGRAPH
    ]
    assert long == []


def test_readme_is_short() -> None:
    assert (
        len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= _LINES_OF_THE_README
    )


def test_link_targets_in_pages_exist() -> None:
    gone = []
    for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")):
        prose = Page(path).prose()
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            name, _, heading = target.partition("#")
            file = path.parent / name if name else path
            if name.startswith("https://"):
                continue
            if not file.exists() or (heading and heading not in _headings(file)):
                gone.append((path.name, target))
    assert gone == []


def _headings(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).strip().replace(" ", "-") for one in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_of_a_page_are_known(page: Page) -> None:
    for block in page.blocks():
        if block.language in {"python", "ipython"}:
            _cell(block.text)
        elif block.language == "console":
            for line in block.text.splitlines():
                if line.startswith("$ jupyter slurm "):
                    _command(line.removeprefix("$ jupyter slurm ").partition("  #")[0])


def test_tests_named_in_documents_exist() -> None:
    texts = [page.text for page in PAGES]
    named = [name for text in texts for name in re.findall(r"\btests/[\w/]+(?:\.py)?", text)]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def _cell(text: str) -> None:
    first, _, rest = re.sub(r"\{[\w.]+\}", "variable", text).partition("\n")
    magic, *words = split(first) if first.startswith("%") else [""]
    if magic in {"%%slurm", "%%sbatch"}:
        assert set(parse(words).options) <= set(OPTIONS)
    if magic == "%%slurm_image":
        parse_image(IMAGE_CELL, read_arguments(IMAGE_CELL, words))
    for line in (first, *rest.splitlines()):
        if line.startswith("%slurm "):
            find(split(line)[1:], "notebook")


def _command(line: str) -> None:
    command, behind = find(split(line.replace('"$SLURM_CONF"', "x")), "terminal")
    read_arguments(command, behind, "terminal")


def test_profiles_of_the_pages_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("JUPYTER_SLURM_CLUSTER", raising=False)
    folder = tmp_path / "jupyter-slurm"
    (folder / "clusters.d").mkdir(parents=True)
    names = 0
    for page in PAGES:
        below = ""
        for block in page.blocks():
            if block.language != "toml":
                continue
            names += 1
            if re.search(r"^\[(gpus|arandu|hpc)\b", block.text, re.MULTILINE):
                (folder / "clusters.toml").write_text(block.text)
            else:  # goes to its own file, after the earlier lines of the page
                below += block.text + "\n"
                (folder / "clusters.d" / "sd.toml").write_text(below)
            profiles = load_profiles()
            assert (dict(profiles.broken), profiles.unread) == ({}, None), (page.name, block.line)
    assert names > 5
    over = load_profiles().get("sd")
    assert (over.partitions["gdl"].limit, over.partitions["gdl"].cost) == ("24h", 80.0)
    assert "exclusive" not in over.defaults


def test_page_of_sites_lists_every_template() -> None:
    text = (DOCS / "howto" / "sites.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in templates.names())
