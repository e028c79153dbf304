// Detection of changes in the data of a view of one job. No DOM.
import type { ISlurmModel } from '../tokens';

export class JobNews {
  private before: readonly unknown[];

  constructor(
    private readonly model: ISlurmModel,
    private readonly id: string
  ) {
    this.before = this.now();
  }

  /** Return whether the job, its connection or its freshness has changed since the last call. */
  hear(): boolean {
    const { before } = this;
    this.before = this.now();
    return this.before.some((one, at) => one !== before[at]);
  }

  private now(): readonly unknown[] {
    const { jobs, connections, freshness } = this.model;
    const job = jobs.get(this.id);
    const way = job === undefined ? undefined : connections.get(job.cluster);
    return [job, way, freshness.problem, freshness.asOf === null];
  }
}
