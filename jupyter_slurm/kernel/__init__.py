"""The local half of a remote kernel. A remote kernel has an ordinary kernelspec and runs its cells
in a job.

`proxy` is the kernel that Jupyter's clients see. It is available at once and stays after the job
has ended. `channels` contains the proxy's sockets. `messages` parses and creates Jupyter's
messages. `waiting` holds requests until the job's kernel runs. `stream` exchanges messages with
node/kernel.py over any number of connections, in the frames of `frames`. `kernel_job` submits and
follows the job. `registry` records the job of each kernel, `spec` manages kernelspecs, and `texts`
contains the texts shown in cells. The package uses only `Api`, like every front end.
"""
