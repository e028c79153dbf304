"""A machine over SSH: OpenSSH logs in, encrypts and moves the data.

`route.py` reads the hops to it by `ssh -G`; `master.py` logs in to one hop by `ssh -M -N`,
`questions.py` passes on its questions and `refusals.py` explains its errors; `mux.py` opens
commands and tunnels over it. `connection.py` keeps the hops of a cluster; `transport.py` is the
Transport. Without an `ssh` program, `fallback.py` logs in by paramiko.
"""
