"""The engine of a job on many nodes, made ready for the user's code.

Runs on the cluster, Python 3.6 and later, standard library and the image's engine only.
"""

import logging
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict  # noqa: F401 - in comments

NODES_S = 60.0


class NodesMissing(Exception):  # noqa: N818 - shown to people under this name
    """Not all nodes have joined the engine."""


def enter(engine, world, namespace):
    # type: (str, Dict[str, Any], Dict[str, Any]) -> None
    """Put what the engine is used by into the code's namespace. Raise NodesMissing."""
    if engine == "ray":
        namespace["ray"] = connect_ray(world)


def connect_ray(world):
    # type: (Dict[str, Any]) -> Any
    import ray  # noqa: PLC0415

    ray.init(address=os.environ["RAY_ADDRESS"], logging_level=logging.ERROR, log_to_driver=True)
    deadline_s = time.monotonic() + NODES_S
    count = 0
    while count < len(world["nodes"]):
        if time.monotonic() > deadline_s:
            raise NodesMissing("%d of %d nodes have joined Ray." % (count, len(world["nodes"])))
        count = sum(1 for node in ray.nodes() if node["Alive"])
        time.sleep(0.02)
    return ray
