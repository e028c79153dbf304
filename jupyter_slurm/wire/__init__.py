"""The values that leave a process: the agent and its clients exchange them, and nothing else.

Frozen msgspec structs; no behaviour beyond a property or two, no I/O. Times are UTC epoch seconds,
None if not known. Slurm's words (partition, reason, QOS …) are Slurm's text. Each module lists its
public names in `__all__`. `framing` has the frames of streams into jobs.
"""

from jupyter_slurm.wire.cluster import *
from jupyter_slurm.wire.connection import *
from jupyter_slurm.wire.control import *
from jupyter_slurm.wire.environment import *
from jupyter_slurm.wire.image import *
from jupyter_slurm.wire.job import *
from jupyter_slurm.wire.kernel import *
from jupyter_slurm.wire.lab import *
from jupyter_slurm.wire.output import *
from jupyter_slurm.wire.priority import *
from jupyter_slurm.wire.problem import *
from jupyter_slurm.wire.spending import *
from jupyter_slurm.wire.state import *
from jupyter_slurm.wire.usage import *
