"""The Jupyter server's part: check permissions, then relay to the agent. It knows nothing of jobs.

Handlers and kernels share one process and one event loop with everybody's notebooks: nothing here
blocks, and nothing is started before somebody asks for something.
"""
