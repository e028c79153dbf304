"""The values that leave a process: the agent and its clients exchange them, and nothing else.

Frozen msgspec structs; no behaviour beyond a property or two, no I/O, and of ours only the
language that messages are shown in. Times are UTC epoch seconds, None if not known. Slurm's words
(partition, reason, QOS …) are Slurm's text. Each module names in `__all__` those that it has. The
frames of streams into jobs are in `framing`, and those of a terminal in `terminal_frames`.
"""

from jupyter_slurm.wire.action import *
from jupyter_slurm.wire.cluster import *
from jupyter_slurm.wire.connection import *
from jupyter_slurm.wire.image import *
from jupyter_slurm.wire.job import *
from jupyter_slurm.wire.kernel import *
from jupyter_slurm.wire.lab import *
from jupyter_slurm.wire.message import *
from jupyter_slurm.wire.output import *
from jupyter_slurm.wire.priority import *
from jupyter_slurm.wire.problem import *
from jupyter_slurm.wire.spending import *
from jupyter_slurm.wire.state import *
from jupyter_slurm.wire.terminal_frames import *
from jupyter_slurm.wire.usage import *
