"""What every test may use."""

pytest_plugins = ("tests.cluster.plugin", "tests.cluster.image", "tests.agent.plugin")
