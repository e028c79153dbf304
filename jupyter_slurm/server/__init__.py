"""The Jupyter server extension: it checks permissions and relays calls to the agent.

Handlers share the server's event loop: nothing here blocks, and nothing starts before the first
request.
"""
