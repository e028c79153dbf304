// Cancelling, holding, releasing and requeuing jobs. A single job has its own call. Several jobs
// and tasks of an array need one call for each cluster.
import { visible } from '../format';
import { numeral } from '../language';
import { SlurmError } from '../server';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Refusal } from '../wire';
import { isOurs, jobOf, type Target } from './targets';

export type JobVerb = 'cancel' | 'hold' | 'release' | 'requeue';

/** Number of refused jobs that a notification names. */
const NAMED = 5;

/**
 * Return the jobs that Slurm refused to change. Reject if Slurm refused a single job or the whole
 * call.
 */
export async function steer(
  model: ISlurmModel,
  targets: readonly Target[],
  verb: JobVerb
): Promise<Refusal[]> {
  const [only] = targets;
  if (targets.length === 1 && only !== undefined && isOurs(only)) {
    const job = await jobOf(model, only.id);
    await model.callLoggedIn(job.cluster, verb, { job_id: job.id });
    return [];
  }
  const byCluster = new Map<string, { job_ids: string[]; slurm_ids: string[] }>();
  for (const target of targets) {
    const cluster = isOurs(target) ? (await jobOf(model, target.id)).cluster : target.cluster;
    const ids = byCluster.get(cluster) ?? { job_ids: [], slurm_ids: [] };
    byCluster.set(cluster, ids);
    if (isOurs(target)) {
      ids.job_ids.push(target.id);
    } else {
      ids.slurm_ids.push(tasksOf(target));
    }
  }
  const refusals: Refusal[] = [];
  await each([...byCluster], async ([cluster, ids]) => {
    const args = { verb, cluster, ...ids };
    refusals.push(...(await model.callLoggedIn<Refusal[]>(cluster, 'control_jobs', args)));
  });
  return refusals;
}

/** Describe how many jobs were changed, and which jobs were refused and why. */
export function outcome(verb: JobVerb, count: number, refusals: readonly Refusal[]): string {
  const done = doneText(verb, count - refusals.length);
  const [first] = refusals;
  if (first === undefined) {
    return done;
  }
  const named = refusals.slice(0, NAMED).map(({ job }) => job);
  const ids = `${named.join(', ')}${refusals.length > NAMED ? ' …' : ''}`;
  const args = [numeral(refusals.length), ids, visible(first.why)];
  const refused = trans._n(
    '%2 job was refused: %3. %4',
    '%2 jobs were refused: %3. %4',
    refusals.length,
    ...args
  );
  return trans.__('%1. %2', done, refused);
}

function doneText(verb: JobVerb, count: number): string {
  const text = numeral(count);
  switch (verb) {
    case 'cancel':
      return trans._n('%2 job cancelled', '%2 jobs cancelled', count, text);
    case 'hold':
      return trans._n('%2 job put on hold', '%2 jobs put on hold', count, text);
    case 'release':
      return trans._n('%2 job released', '%2 jobs released', count, text);
    case 'requeue':
      return trans._n('%2 job requeued', '%2 jobs requeued', count, text);
  }
}

/** Return Slurm's ID of a job or of tasks: `12_[3-9%2]` without the limit of simultaneous tasks. */
function tasksOf({ slurm_id }: Target): string {
  return (slurm_id ?? '').replace(/%\d+/, '');
}

/** Act on all targets, even if one fails. If one has failed, reject at the end. */
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
