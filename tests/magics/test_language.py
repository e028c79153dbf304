"""The magics in the language of the kernel's environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_slurm import language
from jupyter_slurm.kernel import words
from jupyter_slurm.magics.queue_widget import QueueWidget
from tests.magics.fake import FakeApi
from tests.magics.shell import Shell


@pytest.fixture(autouse=True)
def brazilian(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")
    yield
    language.choose({})


def test_magics_speak_the_language_of_the_environment(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach\nprint(1)")
    (job,) = api.jobs()
    table: Any = shell.run("%slurm jobs").outcome.result
    assert "Estado" in table.text.splitlines()[0]
    assert "Estado" in table._repr_html_()
    assert "State" in table.rows[0]
    ran = shell.run(f"%slurm cancel {job.id}")
    assert "pedido para terminar" in ran.out or "terminou" in ran.out
    ran = shell.run("%slurm use nowhere")
    assert str(ran.error).startswith("Não há cluster `nowhere`. Você quis dizer ")


def test_an_error_of_a_line_is_translated_with_its_reason(shell: Shell) -> None:
    ran = shell.run("%%slurm --time soon\nprint(1)")
    assert "não é um tempo: escreva minutos (30)" in str(ran.error)


def test_a_remote_kernel_speaks_it_too() -> None:
    language.choose({"LANG": "pt_BR.UTF-8"})
    told = words.died(-9, again=True)
    assert told.startswith("O kernel no nó terminou pelo sinal 9 (talvez sem memória);")
    assert told.endswith("Ele é iniciado de novo no mesmo job.")


def test_the_queues_widget_speaks_it_too(shell: Shell, api: FakeApi) -> None:
    shell.run("%%slurm --detach --name mine\nlinger()")
    language.choose({"LANG": "ja_JP.UTF-8"})
    widget = QueueWidget(api, None)
    words = widget.get_state(["words"])["words"]
    assert words["everyone"] == "全員のジョブ"
    assert words["head"] == ["ジョブ", "状態", "場所", "操作"]
    assert words["cancel"] == ["キャンセル", "ジョブ {name} ({id}) をキャンセル"]
    assert words["close"] == ["閉じる", "ログを閉じる"]
    assert widget.as_of.endswith(" 現在")
    data, _ = widget._repr_mimebundle_()
    for told in (data["text/html"], data["text/plain"]):
        assert "パーティション" in told
        assert "Partition" not in told
    widget.close()


def test_the_browsers_half_of_the_widget_has_no_words_of_its_own() -> None:
    """Words for people begin with a capital letter: the script has none but the name of a key."""
    script = str(QueueWidget._esm)
    code = re.sub(r"^\s*//.*$", "", script, flags=re.MULTILINE)
    literals = re.findall(r'"([^"\n]*)"|`([^`]*)`', code)
    assert [text for pair in literals for text in pair if re.match(r"[A-Z]", text)] == ["Escape"]
