"""The differences between two listings. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_slurm.transport.files.loads import TransferReport
from jupyter_slurm.transport.files.manifest import Listing, ManifestEntry, same, shown


@dataclass(slots=True)
class Difference:
    """The changes to send."""

    gone: list[bytes] = field(default_factory=list)
    """Remote names to remove, including their content."""
    folders: dict[bytes, ManifestEntry] = field(default_factory=dict)
    """Missing folders, with parents first."""
    links: list[tuple[bytes, ManifestEntry]] = field(default_factory=list)
    files: list[tuple[bytes, ManifestEntry]] = field(default_factory=list)


def surplus(wanted: dict[bytes, ManifestEntry], there: dict[bytes, ManifestEntry]) -> list[bytes]:
    """Remove from `there` all entries that `wanted` lacks, and all entries that are a folder on
    only one side. Return the topmost of the removed names."""
    tops: list[bytes] = []
    gone: set[bytes] = set()
    for name, entry in there.items():
        ours = wanted.get(name)
        if name.rpartition(b"/")[0] in gone:
            gone.add(name)
        elif ours is None or (ours.kind == "folder") != (entry.kind == "folder"):
            gone.add(name)
            tops.append(name)
    for name in gone:
        del there[name]
    return tops


def difference(
    wanted: Listing, there: dict[bytes, ManifestEntry], outcome: TransferReport
) -> Difference:
    """Return the changes to send. Add impossible changes to `outcome`."""
    for name, why in wanted.unread.items():
        outcome.failed[name] = f"Cannot read it: {why}."
    what = Difference()
    blocked: set[bytes] = set()
    equal = 0
    for name, entry in wanted.entries.items():
        other = there.get(name)
        if name.rpartition(b"/")[0] in blocked or _is_conflict(name, entry, other, outcome):
            blocked.add(name)
        elif entry.kind == "folder":
            if other is None:
                what.folders[name] = entry
        elif not _travels(name, entry, outcome):
            continue
        elif other is not None and same(entry, other):
            equal += 1
        else:
            (what.links if entry.kind == "link" else what.files).append((name, entry))
    outcome.same = equal - outcome.files
    return what


def _is_conflict(
    name: bytes, entry: ManifestEntry, other: ManifestEntry | None, outcome: TransferReport
) -> bool:
    if other is None or entry.kind == other.kind or "folder" not in (entry.kind, other.kind):
        return False
    outcome.failed[name] = (
        f"It is a {entry.kind} on one side and a {other.kind} on the other. Remove one of them."
    )
    return True


def _travels(name: bytes, entry: ManifestEntry, outcome: TransferReport) -> bool:
    if entry.kind == "other":
        outcome.left_out[name] = "It is neither a file nor a folder."
    elif entry.kind == "link" and not stays_inside(name, entry.link):
        outcome.left_out[name] = f"It is a link to {shown(entry.link)}, outside the folder."
    else:
        return True
    return False


def stays_inside(name: bytes, target: bytes) -> bool:
    """Return whether a link at `name` points inside the folder, even if its path crosses other
    links that this function accepts. `..` is allowed only at the start, where it refers to a real
    folder."""
    if not target or target.startswith(b"/"):
        return False
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    ups = next((i for i, part in enumerate(parts) if part != b".."), len(parts))
    return ups <= name.count(b"/") and b".." not in parts[ups:]
