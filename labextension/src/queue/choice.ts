// Which jobs of somebody's the chosen rows are. No DOM.
import type { Target } from '../commands/targets';
import type { QueueEntry } from '../wire';
import type { Row } from './listing';

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
