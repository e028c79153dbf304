import pytest

from jupyter_slurm.slurm import sinfo
from jupyter_slurm.slurm.fields import FIELD_END, RECORD_END
from tests.slurm.recorded import RELEASES, output

each_release = pytest.mark.parametrize("release", RELEASES)


@each_release
def test_node_has_a_row_per_partition(release: str) -> None:
    nodes = sinfo.parse_nodes(output(release, "sinfo_nodes"))
    assert sorted((node.name, node.partition) for node in nodes) == [
        ("node1", "batch"),
        ("node1", "closed"),
        ("node2", "batch"),
        ("node2", "gpu"),
    ]


@each_release
def test_resources_and_their_use_are_parsed(release: str) -> None:
    nodes = sinfo.parse_nodes(output(release, "sinfo_nodes"))
    mixed, full = (node for node in nodes if node.partition == "batch")
    assert (mixed.state, mixed.marks) == ("mixed", "")
    assert (mixed.cpus, mixed.cpus_allocated) == (8, 5)
    assert (full.state, full.cpus_allocated) == ("allocated", 8)
    assert (full.memory_mib, full.features) == (32000, ("avx2", "fast"))
    assert (full.gpus, full.gpus_used, mixed.gpus_used) == (4, 2, 0)
    assert full.memory_free_mib is not None
    assert full.cpu_load is not None
    assert full.reason is None


def node_line(state: str = "idle", gres: str = "(null)", used: str = "(null)") -> str:
    values = ["n1", "p", state, "0/0/4/4", "100", "N/A", "N/A", "(null)", gres, used, "bad disk é"]
    return FIELD_END.join(value.ljust(24) for value in values) + RECORD_END + "\n"


@pytest.mark.parametrize(
    ("printed", "state", "marks"),
    [
        ("down*", "down", "*"),
        ("IDLE~", "idle", "~"),
        ("drained$", "drained", "$"),
        ("mixed-", "mixed", "-"),
        ("idle^*", "idle", "^*"),
    ],
)
def test_marks_are_separated_from_the_state(printed: str, state: str, marks: str) -> None:
    [node] = sinfo.parse_nodes(node_line(printed))
    assert (node.state, node.marks) == (state, marks)
    assert (node.reason, node.cpu_load, node.memory_free_mib) == ("bad disk é", None, None)


@pytest.mark.parametrize("printed", ["idle", "MIXED", "mixed-", "IDLE~", "allocated", "completing"])
def test_working_or_sleeping_node_accepts_jobs(printed: str) -> None:
    [node] = sinfo.parse_nodes(node_line(printed))
    assert node.takes_jobs


@pytest.mark.parametrize("printed", ["down", "drained", "draining", "idle*", "reserved", "idle$"])
def test_unavailable_node_does_not_accept_jobs(printed: str) -> None:
    [node] = sinfo.parse_nodes(node_line(printed))
    assert not node.takes_jobs


def test_gpus_in_use_can_be_unknown() -> None:
    [silent] = sinfo.parse_nodes(node_line(gres="gpu:2"))
    assert (silent.gpus, silent.gpus_used) == (2, None)
    [without] = sinfo.parse_nodes(node_line())
    assert (without.gpus, without.gpus_used) == (0, 0)
