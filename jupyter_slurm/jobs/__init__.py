"""A job's life: from a JobSpec to files on the cluster, to Slurm, back to outputs and values."""
