// Which jobs a command is meant for, and how each becomes one of ours. No dialogs, no views.
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { isOpen } from '../format';
import type { ISlurmModel } from '../tokens';
import type { Job } from '../wire';

/** A job: by our id, or one that only Slurm knows, by its own; or the tasks of an array. */
export interface Target {
  cluster: string;
  /** Ours; null: Slurm's id says which. */
  id: string | null;
  /** `12`; `12_3` and `12_[4-9]` are tasks of an array, whatever `id` says. */
  slurm_id: string | null;
  /** What the queue says of a job that is not ours. */
  name?: string;
  state?: string;
}

/** Of a command's arguments: `targets`, or `id` for a single job of ours. */
export function targetsOf(args: ReadonlyPartialJSONObject): Target[] {
  if (typeof args.id === 'string') {
    return [ours(args.id)];
  }
  return Array.isArray(args.targets) ? args.targets.flatMap(targetOf) : [];
}

export function ours(id: string): Target {
  return { cluster: '', id, slurm_id: null };
}

function targetOf(value: unknown): Target[] {
  const given = Object(value) as Record<string, unknown>;
  const text = (name: string): string | null => {
    const found = given[name];
    return typeof found === 'string' ? found : null;
  };
  const [id, slurmId] = [text('id'), text('slurm_id')];
  if (id === null && slurmId === null) {
    return [];
  }
  const target: Target = { cluster: text('cluster') ?? '', id, slurm_id: slurmId };
  const [name, state] = [text('name'), text('state')];
  return [{ ...target, ...(name === null ? {} : { name }), ...(state === null ? {} : { state }) }];
}

/** The arguments that name these jobs to a command. */
export function argsOf(targets: readonly Target[]): ReadonlyJSONObject {
  return {
    targets: targets.map(({ cluster, id, slurm_id, name, state }) => ({
      ...{ cluster, id, slurm_id },
      ...(name === undefined ? {} : { name }),
      ...(state === undefined ? {} : { state })
    }))
  };
}

/** Some tasks of an array, which Slurm steers by themselves and we know only as a whole. */
export function isTask({ slurm_id }: Target): boolean {
  return slurm_id !== null && /^\d+_/.test(slurm_id);
}

/** The job as one of ours; one that was submitted elsewhere becomes so now. */
export async function jobOf(model: ISlurmModel, { cluster, id, slurm_id }: Target): Promise<Job> {
  if (id !== null) {
    return model.jobs.get(id) ?? (await model.call<Job>('job', { job_id: id }));
  }
  return model.callLoggedIn<Job>(cluster, 'adopt', { slurm_id, cluster });
}

/** What is known of its state without asking; null: nothing is. */
export function stateOf(model: ISlurmModel, target: Target): string | null {
  const job = target.id === null || isTask(target) ? undefined : model.jobs.get(target.id);
  return job?.state ?? target.state ?? null;
}

/** The name of the default cluster; '': there is none. */
export async function usualCluster(model: ISlurmModel): Promise<string> {
  const clusters =
    model.clusters.length > 0
      ? model.clusters
      : await model.call<ISlurmModel['clusters']>('clusters');
  return usualOf(clusters);
}

/** Returns the cluster that a panel opens first: the default, or if that is not connected one that is. */
export async function clusterToShow(model: ISlurmModel): Promise<string> {
  const usual = await usualCluster(model);
  const open = [...model.connections.values()].filter(isOpen).map(({ cluster }) => cluster);
  return open.includes(usual) ? usual : (open[0] ?? usual);
}

/** The default one of those that are known. */
export function usualOf(clusters: ISlurmModel['clusters']): string {
  return (clusters.find(one => one.default) ?? clusters[0])?.name ?? '';
}

export const targetsSchema = {
  type: 'object',
  properties: {
    id: { type: 'string', description: 'The id of a job of ours.' },
    current: { type: 'boolean', description: 'The job that is looked at.' },
    targets: {
      type: 'array',
      description: 'The jobs.',
      items: {
        type: 'object',
        properties: {
          cluster: { type: 'string' },
          id: { type: ['string', 'null'], description: 'Our id.' },
          slurm_id: {
            type: ['string', 'null'],
            description: "Slurm's id: a job's, or that of tasks of an array."
          },
          name: { type: 'string', description: 'As the queue has it, of a job that is not ours.' },
          state: { type: 'string', description: 'The same.' }
        }
      }
    }
  }
} as const;
