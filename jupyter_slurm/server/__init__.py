"""The Jupyter server extension: it checks permissions and relays calls to the agent.

Handlers share the server's event loop, so nothing in this package blocks. Nothing starts before the
first request.
"""
