"""A machine over SSH: OpenSSH logs in, encrypts and moves the data.

`route.py` reads which hops lead there; `master.py` logs in to one by `ssh -M -N`, whose questions
`questions.py` passes on and whose refusals `refusals.py` explains; `mux.py` opens commands and
tunnels over it. `connection.py` keeps the hops of a cluster, and `transport.py` is the Transport.
Without an `ssh` program, `fallback.py` logs in by paramiko.
"""
