// How many jobs there are, by state: in status bar, sidebar and queue alike each task of an array is
// a job, as Slurm counts them. Pure.
import { isRunning, isWaiting } from './format';
import { countOf, taskCount } from './tasks';
import type { Job, QueueEntry } from './wire';

/** By state. */
export type Counts = Map<string, number>;

export function addJob(counts: Counts, { state, tasks }: Pick<Job, 'state' | 'tasks'>): void {
  const known = Object.entries(tasks);
  if (known.length === 0) {
    add(counts, state, 1);
  }
  for (const [one, indices] of known) {
    add(counts, one, countOf(indices) ?? 1);
  }
}

export function addEntry(
  counts: Counts,
  { state, slurm_id: id }: Pick<QueueEntry, 'state' | 'slurm_id'>
): void {
  add(counts, state, taskCount(id) ?? 1);
}

function add(counts: Counts, state: string, count: number): void {
  counts.set(state, (counts.get(state) ?? 0) + count);
}

/** Ours, and those of this user's entries in queues that are not ours. */
export function countMine(jobs: Iterable<Job>, listed: Iterable<QueueEntry>): Counts {
  const counts: Counts = new Map();
  for (const job of jobs) {
    addJob(counts, job);
  }
  for (const entry of listed) {
    if (entry.id == null) {
      addEntry(counts, entry);
    }
  }
  return counts;
}

/** Those that have not ended. */
export function live(counts: Counts): { running: number; waiting: number } {
  let running = 0;
  let waiting = 0;
  for (const [state, count] of counts) {
    if (isRunning(state)) {
      running += count;
    } else if (isWaiting(state)) {
      waiting += count;
    }
  }
  return { running, waiting };
}
