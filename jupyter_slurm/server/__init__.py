"""The Jupyter server's part: check permissions, then relay to the agent. It knows nothing of jobs.

Handlers share one process and one event loop with everybody's notebooks and kernels: nothing here
blocks, and nothing starts before a client asks for something.
"""
