"""The local half of a remote kernel, which has an ordinary kernelspec and runs its cells in a job.

`proxy` is the kernel that Jupyter's clients see: it exists at once, and stays when the job has
ended. `channels` contains its sockets, and `messages` the messages that they transport. `waiting`
handles cells until a remote kernel runs. `stream` exchanges messages with node/kernel.py over any
number of connections, in the frames of `frames`. `kernel_job` submits and follows the job.
`registry` records the job of each kernel, `spec` manages kernelspecs, and `texts` contains the
texts shown in cells. The package uses only `Api`, like every front end.
"""
