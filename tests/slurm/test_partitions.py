"""Partitions and reservations in scontrol's output, recorded and real."""

from __future__ import annotations

from jupyter_slurm.slurm import partitions

PARTITIONS = b"""\
PartitionName=debug AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=16 TotalNodes=2 SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=16,mem=32G,node=2,billing=16,gres/gpu=8
PartitionName=gpu AllowGroups=ALL AllowAccounts=physics,chem AllowQos=normal AllocNodes=ALL Default=NO QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=YES MaxNodes=1 MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] OverSubscribe=EXCLUSIVE OverTimeLimit=NONE PreemptMode=OFF State=UP TRES=cpu=16,mem=32G,node=2,billing=16,gres/gpu=8 TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu:A100=2.5,odd
"""  # noqa: E501 (as it is printed)
RESERVATIONS = b"""\
ReservationName=all StartTime=1795306894 EndTime=1795310494 Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES TRES=cpu=16 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=lecture StartTime=1795296094 EndTime=1795306894 Duration=03:00:00 Nodes=n1 NodeCnt=1 CoreCnt=8 Features=(null) PartitionName=(null) Flags=SPEC_NODES TRES=cpu=8 Users=root
ReservationName=license StartTime=1795296094 EndTime=1795306894 Duration=03:00:00 Nodes=(null) NodeCnt=0 CoreCnt=0 Flags=ANY_NODES Licenses=matlab:3
ReservationName=odd StartTime=Unknown EndTime=1795306894 Nodes=n1
"""  # noqa: E501 (as it is printed)


def test_partition_without_limits_is_parsed() -> None:
    debug = partitions.parse_partitions(PARTITIONS)["debug"]
    assert (debug.limit_s, debug.default_time_s, debug.max_nodes) == (86400, 3600, None)
    assert (debug.exclusive, debug.hidden) == (False, False)
    assert (debug.qos, debug.accounts) == ((), ())


def test_partition_with_limits_is_parsed() -> None:
    gpu = partitions.parse_partitions(PARTITIONS)["gpu"]
    assert (gpu.limit_s, gpu.default_time_s, gpu.max_nodes) == (None, None, 1)
    assert (gpu.exclusive, gpu.hidden) == (True, True)
    assert (gpu.qos, gpu.accounts) == (("normal",), ("physics", "chem"))


def test_reservations_are_parsed_earliest_first() -> None:
    lecture, everything = partitions.parse_reservations(RESERVATIONS)
    assert (lecture.name, lecture.nodes, lecture.maintenance) == ("lecture", ("n1",), False)
    assert (everything.nodes, everything.maintenance) == (("n1", "n2"), True)
    assert everything.end_s - everything.start_s == 3600
