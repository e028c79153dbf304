"""Turn a JobSpec into files on the cluster and a job in Slurm."""
