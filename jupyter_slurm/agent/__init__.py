"""The agent: one process per user and host that holds the Service, reached by a Unix socket.

This imports nothing: `client.py` loads the client's side (protocol, place, link, connection,
launch, peers) and must not load the server's (run, app, routes, instance_lock, log, detach).
"""
