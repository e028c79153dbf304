"""Run a task of dask-jobqueue for each line of stdin, and print the seconds that it took.

The Python of `scripts/engines jobqueue` runs this program.
"""

import sys
import time

from dask_jobqueue import SLURMCluster
from distributed import Client


def main() -> None:
    with SLURMCluster(cores=1, memory="1GB", walltime="00:30:00", log_directory="dask") as cluster:
        cluster.scale(1)
        with Client(cluster) as client:
            client.submit(pow, 2, 3).result()
            print("ready", flush=True)
            for _ in sys.stdin:
                began_s = time.perf_counter()
                assert client.submit(pow, 2, 3, pure=False).result() == 8
                print(time.perf_counter() - began_s, flush=True)


if __name__ == "__main__":
    main()
