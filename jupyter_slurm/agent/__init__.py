"""The agent: one process per user and host that holds the Service and serves a Unix socket.

This module does not import others: clients load protocol, place, link, connection, launch and
peers, and must not load the server's modules (app, routes, instance_lock, log).
"""
