"""A job's life: from a JobSpec to files on the cluster, to Slurm, and back to outputs and values."""
