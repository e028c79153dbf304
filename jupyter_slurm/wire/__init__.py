"""What leaves a process: the values that the agent and its clients exchange, and nothing else.

Frozen msgspec structs; no behaviour beyond a property or two, no I/O, no imports of ours. Times are
UTC epoch seconds, None where not known. Slurm's words (partition, reason, QOS …) are Slurm's text.
"""

from jupyter_slurm.wire.cluster import (
    AgentStatus,
    Check,
    Cluster,
    ClusterInfo,
    CommandOutput,
    Cost,
    Description,
    Folder,
    Partition,
    Qos,
    QueueEntry,
    Reservation,
)
from jupyter_slurm.wire.connection import (
    Behind,
    Connection,
    ConnectionState,
    Question,
    QuestionKind,
    Transfer,
    TransferState,
    Tunnel,
)
from jupyter_slurm.wire.image import (
    Image,
    ImageBuild,
    ImageOrigin,
    ImageSpec,
)
from jupyter_slurm.wire.job import (
    Job,
    JobKind,
    JobSpec,
    JobState,
    Usage,
)
from jupyter_slurm.wire.output import (
    Changes,
    ClearOutput,
    DisplayData,
    ErrorOutput,
    ExecuteResult,
    Hello,
    LogChunk,
    Output,
    Preview,
    Result,
    Stream,
    UpdateDisplayData,
)
from jupyter_slurm.wire.problem import (
    Problem,
)
from jupyter_slurm.wire.terminal import TerminalRequest

__all__ = [
    "AgentStatus",
    "Behind",
    "Changes",
    "Check",
    "ClearOutput",
    "Cluster",
    "ClusterInfo",
    "CommandOutput",
    "Connection",
    "ConnectionState",
    "Cost",
    "Description",
    "DisplayData",
    "ErrorOutput",
    "ExecuteResult",
    "Folder",
    "Hello",
    "Image",
    "ImageBuild",
    "ImageOrigin",
    "ImageSpec",
    "Job",
    "JobKind",
    "JobSpec",
    "JobState",
    "LogChunk",
    "Output",
    "Partition",
    "Preview",
    "Problem",
    "Qos",
    "Question",
    "QuestionKind",
    "QueueEntry",
    "Reservation",
    "Result",
    "Stream",
    "TerminalRequest",
    "Transfer",
    "TransferState",
    "Tunnel",
    "UpdateDisplayData",
    "Usage",
]
