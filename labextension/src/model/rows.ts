// The rows of a stream of changes, one for each job. No DOM, no sockets.
import type { Changes, Job, ListedJob, Row } from '../wire';

/** The row's key, as in `Changes.gone`. It changes once the agent has a record of the job. */
export function keyOf(row: Row): string {
  return row.kind === 'listed' ? slurmKey(row) : row.id;
}

export function slurmKey({ cluster, slurm_id: slurmId }: Row): string {
  return `${cluster} ${slurmId ?? ''}`;
}

export class Rows {
  /** The rows by ID. */
  readonly jobs = new Map<string, Job>();
  private readonly listed = new Map<string, ListedJob>();
  private list: readonly Row[] | null = null;

  /** The rows. Each change creates a new array. */
  get all(): readonly Row[] {
    return (this.list ??= [...this.jobs.values(), ...this.listed.values()]);
  }

  take({ whole, jobs, listed, listed_whole: complete, gone }: Changes): void {
    if (whole || complete.length > 0 || jobs.length + listed.length + gone.length > 0) {
      this.list = null;
    }
    if (whole) {
      const there = new Set(jobs.map(job => job.id));
      for (const id of [...this.jobs.keys()].filter(one => !there.has(one))) {
        this.jobs.delete(id);
      }
    }
    for (const [key, { cluster }] of complete.length > 0 ? this.listed : []) {
      if (complete.includes(cluster)) {
        this.listed.delete(key);
      }
    }
    for (const key of gone) {
      this.jobs.delete(key);
      this.listed.delete(key);
    }
    jobs.forEach(job => this.jobs.set(job.id, job));
    listed.forEach(row => this.listed.set(keyOf(row), row));
  }
}
