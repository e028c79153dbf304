// The jobs shown in cards and panels. While one of them is live, its cluster's queue is watched, so
// that Slurm is queried as often as the profile allows.
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { isFinal, isOpen } from '../format';
import type { ISlurmModel } from '../tokens';

type Source = Pick<ISlurmModel, 'jobs' | 'connections' | 'look'>;

export class SeenJobs implements IDisposable {
  private readonly seen = new Set<{ id: string }>();
  /** The jobs by cluster. */
  private readonly looks = new Map<string, IDisposable>();
  isDisposed = false;

  constructor(private readonly model: Source) {}

  /** Watch the job until the returned object is disposed of. */
  see(id: string): IDisposable {
    const one = { id };
    this.seen.add(one);
    this.adapt();
    return new DisposableDelegate(() => {
      this.seen.delete(one);
      this.adapt();
    });
  }

  has(id: string): boolean {
    return [...this.seen].some(one => one.id === id);
  }

  /** Update the watched queues after a change. */
  adapt(): void {
    const wanted = new Set([...this.seen].flatMap(({ id }) => this.clusterOf(id) ?? []));
    for (const [cluster, look] of this.looks) {
      if (!wanted.has(cluster)) {
        look.dispose();
        this.looks.delete(cluster);
      }
    }
    for (const cluster of wanted) {
      if (!this.looks.has(cluster)) {
        this.looks.set(cluster, this.model.look(cluster));
      }
    }
  }

  dispose(): void {
    this.isDisposed = true;
    this.seen.clear();
    this.adapt();
  }

  /** Return the cluster whose queue has the job. */
  private clusterOf(id: string): string | undefined {
    const job = this.model.jobs.get(id);
    if (job === undefined || isFinal(job.state) || job.slurm_id === null) {
      return undefined;
    }
    const connection = this.model.connections.get(job.cluster);
    return connection !== undefined && isOpen(connection) ? job.cluster : undefined;
  }
}
