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
  await each(targets, target => (isTask(target) ? tasks : whole)(model, target, verb));
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
    const message = `${failures.length} of ${targets.length} failed. ${first.problem.message}`;
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

async function tasks(model: ISlurmModel, { cluster, slurm_id }: Target, verb: Verb): Promise<void> {
  // `12_[3-9%2]`: how many may run at once is no part of which they are.
  const id = (slurm_id ?? '').replace(/%\d+/, '');
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
