// How many tasks of an array an id of Slurm's stands for. Pure.

/** How many tasks a listed row stands for: `123_[1-4,7,9-15:2%2]` for nine. null: it was cut. */
export function taskCount(slurmId: string): number | null {
  if (!slurmId.endsWith(']')) {
    return 1;
  }
  const match = /_\[([^\]%]*)(?:%\d+)?\]$/.exec(slurmId);
  if (match === null) {
    return null;
  }
  let count = 0;
  for (const part of (match[1] ?? '').split(',')) {
    const range = /^(\d+)(?:-(\d+)(?::(\d+))?)?$/.exec(part);
    if (range === null) {
      return null;
    }
    const first = Number(range[1]);
    count += Math.floor((Number(range[2] ?? first) - first) / Number(range[3] ?? 1)) + 1;
  }
  return count;
}
