// Which rows somebody has chosen, and which jobs of theirs these are. No DOM.
import type { Target } from '../commands/targets';
import type { Choosing } from '../grid/grid';
import type { QueueEntry } from '../wire';
import type { Row } from './listing';

export interface Choice {
  /** Of rows. */
  keys: ReadonlySet<string>;
  /** Where a range begins. */
  anchor: string;
}

export const NOTHING: Choice = { keys: new Set(), anchor: '' };

export function chosen(
  { keys, anchor }: Choice,
  rows: readonly Row[],
  find: (key: string) => number,
  at: number,
  how: Choosing
): Choice {
  const key = rows[at]?.key;
  if (key === undefined) {
    return NOTHING;
  }
  if (how === 'range') {
    const from = Math.max(0, find(anchor));
    const range = rows.slice(Math.min(from, at), Math.max(from, at) + 1);
    return { keys: new Set(range.map(row => row.key)), anchor: rows[from]?.key ?? key };
  }
  if (how === 'only') {
    return { keys: new Set([key]), anchor: key };
  }
  const next = new Set(keys);
  if (!next.delete(key)) {
    next.add(key);
  }
  return { keys: next, anchor: key };
}

/** The jobs of the chosen rows that are to be seen and are this user's; an array is one job,
 * and one of its tasks, chosen by itself, is that task. */
export function targetsOf(
  cluster: string,
  rows: readonly Row[],
  keys: ReadonlySet<string>,
  isOwn: (entry: QueueEntry) => boolean
): Target[] {
  const found = new Map<string, Target>();
  if (keys.size === 0) {
    return [];
  }
  for (const { key, entry, inside } of rows) {
    const array = entry.array_id ?? null;
    const isInChosen = inside && array !== null && found.has(array);
    if (keys.has(key) && isOwn(entry) && !isInChosen) {
      const slurmId = inside ? entry.slurm_id : (array ?? entry.slurm_id);
      found.set(slurmId, { cluster, id: entry.id ?? null, slurm_id: slurmId });
    }
  }
  return [...found.values()];
}
