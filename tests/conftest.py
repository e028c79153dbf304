"""What every test may use."""

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = (
    "pytester",
    "tests.cluster.plugin",
    "tests.cluster.image",
    "tests.cluster.docker",
    "tests.cluster.registry",
    "tests.cluster.apptainer",
    "tests.cluster.pyxis",
    "tests.agent.plugin",
    "tests.ssh.plugin",
)

# Started in the background, a shell's children ignore Ctrl-C, and what is ignored is inherited by
# every program that a test starts to interrupt it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes, or making one, is a matter of what else this machine does.
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")
