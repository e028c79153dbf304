// How jobs are steered, one after the other: ours by the agent, tasks of an array by Slurm's own
// commands. No dialogs, no views.
import { SlurmError } from '../server';
import type { ISlurmModel } from '../tokens';
import type { CommandOutput } from '../wire';
import { isTask, jobOf, type Target } from './targets';

export type Verb = 'cancel' | 'hold' | 'release' | 'requeue';

/** All of them, even where one fails. Rejects with the first failure, and how many there were. */
export async function steer(
  model: ISlurmModel,
  targets: readonly Target[],
  verb: Verb
): Promise<void> {
  if (verb === 'cancel' && targets.length > 1) {
    await cancelMany(model, targets);
    return;
  }
  await each(targets, target => (isTask(target) ? tasks : whole)(model, target, verb));
}

/** By one call for each cluster, which is one scancel there. */
async function cancelMany(model: ISlurmModel, targets: readonly Target[]): Promise<void> {
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
    model.callLoggedIn(cluster, 'cancel_many', { cluster, ...ids })
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

async function whole(model: ISlurmModel, target: Target, verb: Verb): Promise<void> {
  const job = await jobOf(model, target);
  await model.callLoggedIn(job.cluster, verb, { job_id: job.id });
}

async function tasks(model: ISlurmModel, target: Target, verb: Verb): Promise<void> {
  const { cluster } = target;
  const id = listed(target);
  const argv = verb === 'cancel' ? ['scancel', id] : ['scontrol', verb, id];
  const done = await model.callLoggedIn<CommandOutput>(cluster, 'command', { argv, cluster });
  if (done.returncode !== 0) {
    const detail = done.stderr.trim() || done.stdout.trim();
    throw new SlurmError(
      {
        code: 'command',
        message: `${argv.join(' ')}: ${detail || String(done.returncode)}`,
        hint: null,
        detail,
        transient: false,
        option: null
      },
      409
    );
  }
}
