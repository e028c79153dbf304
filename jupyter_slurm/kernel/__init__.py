"""The remote kernel's local half: a kernel of an ordinary kernelspec, whose cells run in a job.

What a client of Jupyter sees is `proxy`: it is there at once, and stays when the job has ended.
Inside: `channels` (the sockets of a kernel, on this side), `messages` (what goes through them),
`waiting` (cells while there is no kernel yet), `far` (frames to the kernel in the job and back,
over any number of lines), `life` (the job, from its submission to its end), `known` (which job
belongs to which kernel), `spec` (kernelspecs), `words` (what is said in cells). It speaks `Api`,
like every front end; the far end is `node/kernel.py`.
"""
