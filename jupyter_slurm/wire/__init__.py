"""The values that the agent and its clients exchange.

Frozen msgspec structs with hardly any behaviour and no I/O. Times are UTC epoch seconds, None if
unknown. Slurm's words (partition, reason, QOS …) are unchanged. Each module lists its public names
in `__all__`. `framing` defines the frames of streams into jobs.
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
