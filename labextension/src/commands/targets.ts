// The jobs on which a command acts.
import type { ReadonlyJSONObject, ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { isOpen } from '../format';
import type { ISlurmModel } from '../tokens';
import type { Job } from '../wire';

/** A job by our ID, or by Slurm's ID if we have no record of the job; or tasks of an array. */
export interface Target {
  cluster: string;
  /** Our ID; null if we have no record of the job. */
  id: string | null;
  /** Slurm's ID. `12_3` and `12_[4-9]` name tasks of an array, even beside an `id`. */
  slurm_id: string | null;
  /** The queue's data of a job that is not ours. */
  name?: string;
  state?: string;
}

/** Read a command's arguments: `targets`, or `id` for a single job of ours. */
export function targetsOf(args: ReadonlyPartialJSONObject): Target[] {
  if (typeof args.id === 'string') {
    return [{ cluster: '', id: args.id, slurm_id: null }];
  }
  return Array.isArray(args.targets) ? args.targets.flatMap(targetOf) : [];
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

/** Return the arguments of a command for these jobs. */
export function argsOf(targets: readonly Target[]): ReadonlyJSONObject {
  return {
    targets: targets.map(({ cluster, id, slurm_id, name, state }) => ({
      ...{ cluster, id, slurm_id },
      ...(name === undefined ? {} : { name }),
      ...(state === undefined ? {} : { state })
    }))
  };
}

/** Return whether the target names tasks of an array, which Slurm controls separately. */
export function isTask({ slurm_id }: Target): boolean {
  return slurm_id !== null && /^\d+_/.test(slurm_id);
}

/** Return whether the target is a whole job of ours. */
export function isOurs(target: Target): target is Target & { id: string } {
  return target.id !== null && !isTask(target);
}

export async function jobOf(model: ISlurmModel, id: string): Promise<Job> {
  return model.jobs.get(id) ?? (await model.call<Job>('job', { job_id: id }));
}

/** Return the known state; null if unknown. */
export function stateOf(model: ISlurmModel, target: Target): string | null {
  const job = target.id === null || isTask(target) ? undefined : model.jobs.get(target.id);
  return job?.state ?? target.state ?? null;
}

/** Return the name of the default cluster, or ''. */
export async function usualCluster(model: ISlurmModel): Promise<string> {
  const clusters =
    model.clusters.length > 0
      ? model.clusters
      : await model.call<ISlurmModel['clusters']>('clusters');
  return usualOf(clusters);
}

/** Return the cluster for a new panel: the default, unless only another cluster is connected. */
export async function clusterToShow(model: ISlurmModel): Promise<string> {
  const usual = await usualCluster(model);
  const open = [...model.connections.values()].filter(isOpen).map(({ cluster }) => cluster);
  return open.includes(usual) ? usual : (open[0] ?? usual);
}

/** Return the name of the default among the known clusters. */
export function usualOf(clusters: ISlurmModel['clusters']): string {
  return (clusters.find(one => one.default) ?? clusters[0])?.name ?? '';
}

export const targetsSchema = {
  type: 'object',
  properties: {
    id: { type: 'string', description: 'The ID of a job in jupyter-slurm.' },
    current: { type: 'boolean', description: 'True for the current job.' },
    targets: {
      type: 'array',
      description: 'The jobs, or tasks of arrays.',
      items: {
        type: 'object',
        properties: {
          cluster: { type: 'string' },
          id: {
            type: ['string', 'null'],
            description: 'The ID of the job in jupyter-slurm; null without a record.'
          },
          slurm_id: {
            type: ['string', 'null'],
            description: "Slurm's ID of a job or of tasks of an array."
          },
          name: {
            type: 'string',
            description: 'The name in the queue, for a job without a record.'
          },
          state: {
            type: 'string',
            description: 'The state in the queue, for a job without a record.'
          }
        }
      }
    }
  }
} as const;
