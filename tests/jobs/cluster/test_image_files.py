"""Which files of this machine a recipe takes along, and which it may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_slurm.containers.recipe import read_recipe
from jupyter_slurm.errors import JupyterSlurmError, NotFoundError, RequestError
from jupyter_slurm.jobs.cluster import image_files
from jupyter_slurm.jobs.cluster.image_files import Files, files_of

_HEAD = "Bootstrap: docker\nFrom: x\n%files\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "the notebook's"
    for name in (
        "code/main.py",
        "code/lib/ünter.py",
        "code/.hidden",
        "a b.txt",
        "c.csv",
        "n.ipynb",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def found(folder: Path, *lines: str, notebook: str | None = None) -> Files:
    text = "\n".join(["FROM x", *lines])
    files = files_of(read_recipe(text, None), str(folder), notebook)
    assert files is not None
    return files


def names(folder: Path, *lines: str) -> list[str]:
    return list(found(folder, *lines).names)


def test_only_what_the_recipe_names_travels(folder: Path) -> None:
    assert names(folder, 'COPY ["a b.txt", "/x/"]', "COPY --chown=1 c.csv /y") == [
        "a b.txt",
        "c.csv",
    ]
    assert names(folder, "COPY ./code/lib /x") == ["code/lib", "code/lib/ünter.py"]
    assert names(folder, "COPY code/* /x") == [
        "code/.hidden",
        "code/lib",
        "code/lib/ünter.py",
        "code/main.py",
    ]
    assert names(folder, "COPY code/[^.l]*.p? /x") == ["code/main.py"]
    assert names(folder, "COPY **/*.py /x") == ["code/lib/ünter.py", "code/main.py"]
    without = (
        "FROM x AS one\nADD https://a.org/b /b\nCOPY --from=one /etc /e\nCOPY <<E /f\nCOPY q z\nE"
    )
    assert files_of(read_recipe(without, None), str(folder), None) is None
    assert files_of(read_recipe("pip install x", "base"), None, None) is None


def test_the_whole_folder_goes_without_the_notebook_itself(folder: Path) -> None:
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "n-checkpoint.ipynb").touch()
    notebook = str(folder / "n.ipynb")
    before = found(folder, "COPY . /x", notebook=notebook)
    assert len(before.names) == 7
    (folder / "n.ipynb").write_text("saved again")
    assert found(folder, "COPY . /x", notebook=notebook) == before
    assert found(folder, "COPY n.ipynb /x", notebook=notebook).names == ("n.ipynb",)


def test_a_dockerignore_is_heeded(folder: Path) -> None:
    (folder / ".dockerignore").write_text("# so\n\n*.csv\n**/*.py\ncode/lib\n!code/lib/ünter.py\n")
    assert names(folder, "COPY . /x") == [
        ".dockerignore",
        "a b.txt",
        "code",
        "code/.hidden",
        "code/lib/ünter.py",
        "n.ipynb",
    ]
    with pytest.raises(RequestError, match=r"Line 2 .*\.dockerignore leaves out c\.csv"):
        found(folder, "COPY c.csv /x")


def test_links_travel_with_what_they_lead_to_unless_they_lead_out(folder: Path) -> None:
    (folder / "latest").symlink_to("newest")
    (folder / "newest").symlink_to("code")
    assert names(folder, "COPY latest/main.py /x") == ["code/main.py", "latest", "newest"]
    (folder / "python").symlink_to("/usr/bin/python3")
    (folder / "code" / "up").symlink_to("../../elsewhere")
    # Docker copies a link in a folder as a link.
    assert "code/up" in names(folder, "COPY code /x")
    for line in ("COPY python /x", "COPY code/up /x"):
        with pytest.raises(RequestError, match=r"the link .* leads out of"):
            found(folder, line)
    with pytest.raises(RequestError, match=r"Line 4 .*the link code/up leads out"):
        files_of(read_recipe(f"{_HEAD}  code /x\n", None), str(folder), None)
    (folder / "round").symlink_to("round")
    with pytest.raises(RequestError, match=r"the link round"):
        found(folder, "COPY round /x")


def test_a_definition_takes_the_files_of_its_sections_and_a_local_image(folder: Path) -> None:
    text = (
        'Bootstrap: localimage\nFrom: c.csv\n%files\n  # remark\n  "a b.txt" /x\n'
        "%post\n  main.py\n%appfiles hello\n  code/main.py\n%files from one\n /etc /e\n"
        "Bootstrap: localimage\nFrom: /on/the/cluster.sif\n%files\n  code/.hidden\n"
    )
    files = files_of(read_recipe(text, None), str(folder), None)
    assert files is not None
    assert files.names == ("a b.txt", "c.csv", "code/.hidden", "code/main.py")


def test_the_digest_is_that_of_contents_names_and_what_may_be_run(folder: Path) -> None:
    first = found(folder, "COPY code /x")
    os.utime(folder / "code" / "main.py", (1, 1))
    (folder / "c.csv").write_text("another")
    assert found(folder, "COPY code /x") == first
    digests = {first.digest}
    (folder / "code" / "main.py").chmod(0o755)
    digests.add(found(folder, "COPY code /x").digest)
    (folder / "code" / "main.py").write_text("code/main_py")
    digests.add(found(folder, "COPY code /x").digest)
    (folder / "code" / "lib" / "empty").mkdir()
    digests.add(found(folder, "COPY code /x").digest)
    (folder / "code" / "lib" / "empty").rmdir()
    (folder / "code" / "lib" / "empty").symlink_to("x")
    digests.add(found(folder, "COPY code /x").digest)
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("COPY nothing /x", NotFoundError, "there is no nothing in"),
        ("COPY *.tex /x", NotFoundError, r"there is no \*\.tex in"),
        ("COPY code/../../x /x", RequestError, "not below the folder"),
        ("COPY .. /x", RequestError, "not below the folder"),
        ("ADD /etc/passwd /x", RequestError, "not below the folder"),
        ("COPY $V /x", RequestError, "by a variable"),
        ("COPY alone", RequestError, "is missing"),
    ],
)
def test_what_cannot_go_is_refused_with_the_line_of_the_recipe(
    folder: Path, line: str, error: type[JupyterSlurmError], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        found(folder, "RUN a \\", "  b <<E", "COPY no no", "E", "# remark", line)
    assert str(caught.value).startswith(f"Line 7 of the recipe, `{line}`: ")


def test_too_much_the_home_and_what_cannot_be_sent_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "code" / "fifo")
    assert "code/fifo" not in names(folder, "COPY code /x")
    with pytest.raises(RequestError, match="neither a file nor a folder"):
        found(folder, "COPY code/fifo /x")
    monkeypatch.setattr(image_files, "_MOST_BYTES", 20)
    with pytest.raises(RequestError, match=r"Line 2 .*more than an image takes along"):
        found(folder, "COPY code /x")
    monkeypatch.undo()
    monkeypatch.setattr(image_files, "_MOST_FILES", 2)
    with pytest.raises(RequestError, match=r"Line 3 .*more than an image takes along"):
        found(folder, "COPY c.csv /x", "COPY code /x")
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(folder))
    assert names(folder, "COPY c.csv /x") == ["c.csv"]
    with pytest.raises(RequestError, match="as a whole"):
        found(folder, "COPY . /x")
    (Path(os.fsdecode(os.fsencode(folder) + b"/code/\xff"))).touch()
    with pytest.raises(RequestError, match="not UTF-8"):
        found(folder, "COPY code /x")
    with pytest.raises(RequestError, match="which folder"):
        files_of(read_recipe("FROM x\nCOPY a b", None), None, None)
