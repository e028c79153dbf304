"""A job's state in sidebar, panels and card, which is always Slurm's state."""

from __future__ import annotations

from collections.abc import Callable

from tests.cluster.plugin import SlurmCluster
from tests.ui.four_views import beside_one_another
from tests.ui.lab import Notebook


def test_job_changed_in_a_terminal_changes_in_every_view(
    opened: Callable[..., Notebook], cluster: SlurmCluster
) -> None:
    code = "import time\ntime.sleep(600)"
    notebook = opened([f"%%slurm --detach --hold --requeue --time 4:00:00\n{code}"])
    notebook.run_all()
    views = beside_one_another(notebook)
    job = views.slurm_id
    views.all_say("waiting", "On hold", brief=("waiting", "on hold"), queue=("on hold",))
    cluster.run("scontrol", "release", job)
    views.all_say("running")
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=3:30:00")
    views.all_say("3 h 30 min", brief=("3 h 30",), queue=("3 h 30",))
    cluster.run("scontrol", "update", f"JobId={job}", "JobName=renamed")
    views.all_say("renamed")
    cluster.run("scontrol", "requeue", job)
    views.all_say("waiting")
    cluster.run("scontrol", "hold", job)
    views.all_say("waiting", "On hold", brief=("waiting", "on hold"), queue=("on hold",))
    cluster.run("scancel", job)
    views.all_say_that_it_is_over("cancelled")
