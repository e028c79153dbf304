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
def test_agent_inherits_the_users_variables(name: str) -> None:
    assert environment({name: "é ü"}) == {name: "é ü"}


@pytest.mark.parametrize(
    "name",
    (
        "JPY_PARENT_PID JPY_SESSION_NAME KERNEL_USERNAME JUPYTERHUB_API_TOKEN JUPYTER_TOKEN "
        "JUPYTER_PASSWORD SLURM_JOB_ID SBATCH_PARTITION AWS_SECRET MY_PATH HOMEPAGE OLDPWD PWD"
    ).split(),
)
def test_agent_does_not_inherit_variables_of_a_notebook_or_job(name: str) -> None:
    assert environment({name: "x"}) == {}
