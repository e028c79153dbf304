"""What every test may use."""

import signal

pytest_plugins = (
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
