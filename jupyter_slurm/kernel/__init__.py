"""The local half of a remote kernel: an ordinary kernelspec's kernel whose cells run in a job.

`proxy` is the kernel that Jupyter's clients see: it exists at once, and stays when the job has
ended. `channels` are its sockets and `messages` what they transport; `waiting` handles cells while
no remote kernel runs; `stream` exchanges messages with node/kernel.py over any number of
connections, in the frames of `frames`; `kernel_job` submits and follows the job; `registry` records
which job belongs to which kernel; `spec` manages kernelspecs; `texts` has the texts shown in cells.
It speaks `Api`, like every front end.
"""
