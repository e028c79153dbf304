// How jobs are steered: a single one by its own call, many and tasks of an array by one action for
// each cluster, which the agent sees to its end. No dialogs, no views.
import { SlurmError } from '../server';
import type { ISlurmModel } from '../tokens';
import type { Action } from '../wire';
import { isTask, jobOf, type Target } from './targets';

export type Verb = Action['verb'];

/** Rejects where it was refused, or an action could not begin; how one ends is told by telling.ts. */
export async function steer(
  model: ISlurmModel,
  targets: readonly Target[],
  verb: Verb
): Promise<void> {
  const [only] = targets;
  if (targets.length === 1 && only !== undefined && !isTask(only)) {
    const job = await jobOf(model, only);
    await model.callLoggedIn(job.cluster, verb, { job_id: job.id });
    return;
  }
  const meant = new Map<string, { job_ids: string[]; slurm_ids: string[] }>();
  for (const target of targets) {
    const ours = target.id !== null && !isTask(target);
    const cluster = ours ? (await jobOf(model, target)).cluster : target.cluster;
    const there = meant.get(cluster) ?? { job_ids: [], slurm_ids: [] };
    meant.set(cluster, there);
    if (ours) {
      there.job_ids.push(target.id ?? '');
    } else {
      there.slurm_ids.push(listed(target));
    }
  }
  await each([...meant], ([cluster, ids]) =>
    model.callLoggedIn<Action>(cluster, 'steer_many', { verb, cluster, ...ids })
  );
}

/** `12_[3-9%2]`: how many may run at once is no part of which they are. */
function listed({ slurm_id }: Target): string {
  return (slurm_id ?? '').replace(/%\d+/, '');
}

/** Does it to all, even where it fails for one; rejects at the end then. */
export async function each<T>(
  targets: readonly T[],
  act: (target: T) => Promise<unknown>
): Promise<void> {
  const failures: unknown[] = [];
  for (const target of targets) {
    try {
      await act(target);
    } catch (error) {
      failures.push(error);
    }
  }
  const [first] = failures;
  if (failures.length > 1 && first instanceof SlurmError) {
    const message = `${failures.length} of ${targets.length} failed. ${first.message}`;
    throw new SlurmError({ ...first.problem, message }, first.status);
  }
  if (failures.length > 0) {
    throw first;
  }
}
