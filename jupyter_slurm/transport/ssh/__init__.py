"""A machine over SSH: OpenSSH logs in, encrypts and moves the data.

`route.py` gets the hops from `ssh -G`. `master.py` logs in to one hop with `ssh -M -N`.
`questions.py` passes on the questions of `ssh`, and `refusals.py` explains its errors. `mux.py`
runs commands and opens tunnels over a hop. `connection.py` keeps the hops of a cluster open.
`transport.py` is the Transport. Without an `ssh` program, `fallback.py` logs in with paramiko.
"""
