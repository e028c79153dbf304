"""What a job would meet (`--dry-run`), as HTML."""

from __future__ import annotations

from jupyter_slurm.views.preview_text import preview_html
from jupyter_slurm.wire import Check, Preview


def test_what_stands_in_backticks_is_code() -> None:
    check = Check(ok=None, sentence="It runs in `~/<env>/python`.", hint="Set `python`.")
    shown = preview_html(
        Preview(
            cluster="c",
            script="echo `date`\n",
            sbatch=("sbatch",),
            job_dir="/j",
            checks=(check,),
            files=(),
        )
    )
    assert "<code>~/&lt;env&gt;/python</code>" in shown
    assert "<code>python</code>" in shown
    assert "echo `date`" in shown
