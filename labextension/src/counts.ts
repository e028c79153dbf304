// Counts of jobs by state, for status bar, sidebar and queue. Each task of an array is a job, as
// for Slurm. No I/O.
import { isFinal, isRunning, isWaiting } from './format';
import { countsOf, taskCount } from './tasks';
import type { Row } from './wire';

/** The counts by state. */
export type Counts = Map<string, number>;

export function addRow(
  counts: Counts,
  { state, tasks, slurm_id: id }: Partial<Row> & Pick<Row, 'state'>
): void {
  const known = countsOf(tasks ?? {});
  if (known.length === 0) {
    add(counts, state, taskCount(id ?? '') ?? 1);
  }
  for (const [one, count] of known) {
    add(counts, one, count);
  }
}

function add(counts: Counts, state: string, count: number): void {
  counts.set(state, (counts.get(state) ?? 0) + count);
}

/** The row of an array stands for its listed tasks. */
export function countRows(rows: Iterable<Row>): Counts {
  const counts: Counts = new Map();
  for (const row of rows) {
    if (row.kind !== 'listed' || row.array == null) {
      addRow(counts, row);
    }
  }
  return counts;
}

/** The counts of running and waiting jobs. */
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

/** The counts of states that are not final. */
export function unfinished(counts: Counts): Counts {
  return new Map([...counts].filter(([state]) => !isFinal(state)));
}
