"""The environment that an agent inherits."""

from __future__ import annotations

import pytest

from jupyter_slurm.agent.launch import environment


@pytest.mark.parametrize(
    "name",
    (
        "HOME PATH LANG LC_ALL TZ XDG_RUNTIME_DIR SSH_AUTH_SOCK JUPYTER_DATA_DIR "
        "JUPYTER_SLURM_AGENT_IDLE_S PYTHONPATH SLURM_BITSTR_LEN SLURM_TIME_FORMAT "
        "SSH_SK_PROVIDER KRB5_CONFIG KRB5CCNAME"
    ).split(),
)
def test_what_every_process_of_the_user_has_is_kept(name: str) -> None:
    assert environment({name: "é ü"}) == {name: "é ü"}


@pytest.mark.parametrize(
    "name",
    (
        "JPY_PARENT_PID JPY_SESSION_NAME KERNEL_USERNAME JUPYTERHUB_API_TOKEN JUPYTER_TOKEN "
        "JUPYTER_PASSWORD SLURM_JOB_ID SBATCH_PARTITION AWS_SECRET MY_PATH HOMEPAGE OLDPWD PWD"
    ).split(),
)
def test_what_belongs_to_one_notebook_server_or_job_is_dropped(name: str) -> None:
    assert environment({name: "x"}) == {}
