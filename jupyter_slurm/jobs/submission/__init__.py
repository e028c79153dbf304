"""The submission of a JobSpec, as files on the cluster and a job in Slurm."""
