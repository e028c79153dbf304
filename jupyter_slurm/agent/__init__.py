"""The agent: one process per user and host that holds the Service and serves a Unix socket.

This module does not import its submodules. Clients load protocol, place, link, launch, peers and
via_jupyter_server, and must not load the server's modules (app, routes, kernel_stream,
instance_lock, log).
"""
