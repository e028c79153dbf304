// The targets of the selected rows. No DOM.
import type { Target } from '../commands/targets';
import type { Row } from '../wire';
import type { Line } from './listing';

/**
 * Return the jobs of the visible selected lines that belong to this user. An array is one job. A
 * selected task is only that task.
 */
export function targetsOf(
  cluster: string,
  lines: readonly Line[],
  keys: ReadonlySet<string>
): Target[] {
  const found = new Map<string, Target>();
  if (keys.size === 0) {
    return [];
  }
  for (const { key, row, inside } of lines) {
    const array = row.kind === 'listed' ? (row.array ?? '') : '';
    const isInChosen = inside && found.has(array);
    if (keys.has(key) && isMine(row) && !isInChosen) {
      found.set(key, { cluster, id: row.id ?? null, slurm_id: row.slurm_id ?? null });
    }
  }
  return [...found.values()];
}

function isMine(row: Row): boolean {
  return row.kind !== 'listed' || row.mine === true;
}
