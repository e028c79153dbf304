"""`jupyter slurm` in the language of its environment: errors, tables, and what stays English."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from jupyter_slurm import language
from jupyter_slurm.cli.jobs import check_text
from jupyter_slurm.jobs.cluster.doctor import examine
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.readable import width
from jupyter_slurm.transport import Completed
from jupyter_slurm.wire import Check
from tests.cluster.plugin import jupyter_homes


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    languages = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    kept = {name: value for name, value in os.environ.items() if name not in languages}
    return {**kept, "HOME": str(tmp_path), **jupyter_homes(tmp_path)}


def run(env: dict[str, str], lang: str, *words: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "jupyter_slurm", *words],
        env={**env, "LANG": lang},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("C.UTF-8", "jupyter slurm: There is no template `dgx`.\nTemplates: aau-aicloud, "),
        ("pt_BR.UTF-8", "jupyter slurm: Não há modelo `dgx`.\nModelos: aau-aicloud, "),
        ("ja_JP.UTF-8", "jupyter slurm: テンプレート `dgx` はありません。\nテンプレート: aau-"),
    ],
)
def test_an_error_is_in_the_users_language_and_its_names_are_as_they_are(
    env: dict[str, str], lang: str, said: str
) -> None:
    code, _, err = run(env, lang, "clusters", "add", "x", "--template", "dgx", "--yes")
    assert (code, err[: len(said)]) == (2, said)


def test_an_error_within_an_error_is_translated_too(env: dict[str, str]) -> None:
    file = Path(env["HOME"]) / "job.py"
    file.write_text("")
    _, _, err = run(env, "pt_BR.UTF-8", "submit", "--gpus", "x", str(file))
    told = "escreva um número (2) ou um tipo e um número (a100:2)"
    assert err == f"jupyter slurm: --gpus=x: {told}.\n"


def test_a_table_is_in_the_users_language_and_its_columns_stand_below_each_other(
    env: dict[str, str],
) -> None:
    _, out, _ = run(env, "ja_JP.UTF-8", "clusters", "templates")
    head, *rows, last = out.splitlines()
    name, cluster = head.split()
    assert (name, cluster) == ("名前", "クラスター")
    column = width(head[: head.index(cluster)])
    assert {width(row[: row.index(row.split(maxsplit=1)[1])]) for row in rows} == {column}
    assert "ワークステーション" in rows[1]
    assert last.endswith("jupyter slurm clusters add NAME --template NAME")


def test_what_programs_read_and_the_help_stay_english(env: dict[str, str]) -> None:
    _, out, _ = run(env, "pt_BR.UTF-8", "clusters", "templates", "--json")
    assert json.loads(out)["arandu"].endswith("four workstations; Docker")
    assert run(env, "pt_BR.UTF-8", "--help") == run(env, "C.UTF-8", "--help")


def test_what_the_doctor_finds_in_english_is_told_in_the_users_language() -> None:
    facts = (
        *("program\tsbatch\t/bin/sbatch", "program\tapptainer\t/bin/apptainer"),
        *("filesystem\t/jobs\tnfs", "writable\t/jobs\t/jobs", "module\t\tyes"),
        *("python\tpython3\t3.5", "me\t7\t7", "rights\t/jobs\tdrwxrwxrwx 7 7"),
        *("old\t/scratch\t2 3000000 1", "oldest\t/scratch/a\t0"),
    )
    profile = msgspec.convert(
        {
            "name": "far",
            "runtime": "docker",
            "storage": {"scratch": "/scratch", "purge_days": 30},
            "images": {"torch": "/images/torch.sif"},
        },
        ClusterProfile,
    )
    found = examine(profile, lambda _: Completed(0, "\n".join(facts).encode(), b""))
    checks = msgspec.json.decode(msgspec.json.encode(found), type=list[Check])
    language.choose({"LANG": "pt_BR.UTF-8"})
    try:
        told = "".join(map(check_text, checks)).splitlines()
    finally:
        language.choose({})
    assert told[0].startswith("✖ Os comandos do Slurm não foram encontrados: squeue, ")
    assert told[1] == "    Ponha a pasta deles em `path`, no perfil do cluster."
    assert told[3].startswith("✖ Qualquer pessoa de lá pode pôr outra pasta no lugar de /jobs, ")
    assert told[5].startswith(
        "· O site apaga os arquivos em /scratch 30 dias após a última alteração. Pelo menos 2 "
        "arquivos de lá (3.0 MB) têm mais de 16 dias; o primeiro a sumir é /scratch/a, em 19"
    )
    assert "✔ Encontrados aqui: apptainer, módulos de ambiente." in told
    english = "".join(map(check_text, checks)).splitlines()
    assert not set(english) & set(told)
