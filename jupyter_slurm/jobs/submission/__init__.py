"""From a JobSpec to files on the cluster and a job in Slurm."""
