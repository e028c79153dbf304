// Whether what a view of one job shows may have changed: news of others are none. No DOM.
import type { ISlurmModel } from '../tokens';

export class JobNews {
  private before: readonly unknown[];

  constructor(
    private readonly model: ISlurmModel,
    private readonly id: string
  ) {
    this.before = this.now();
  }

  /** Whether the job, the way to it or what is not known of it is another than last time. */
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
