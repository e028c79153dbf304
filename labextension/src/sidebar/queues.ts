// The queues that the sidebar looks at while it is seen.
import { isOpen } from '../format';
import type { Freshness, ISlurmModel, QueueView } from '../tokens';
import type { QueueEntry } from '../wire';

/** The queue of every cluster that can be asked, or could be: one that is lost says so itself. */
export class Queues {
  /** Of clusters that can be asked, or could be before they were lost. */
  clusters: readonly string[] = [];
  private readonly views = new Map<string, QueueView>();
  /** As it was when it was last looked at: shown until there are news. */
  private readonly before = new Map<string, Pick<QueueView, 'entries' | 'ended'>>();

  constructor(private readonly changed: () => void) {}

  entries(cluster: string): ReadonlyMap<string, QueueEntry> {
    return this.newest(cluster)?.entries ?? new Map<string, QueueEntry>();
  }

  /** Those that were submitted elsewhere and have ended. */
  ended(cluster: string): ReadonlyMap<string, QueueEntry> {
    return this.newest(cluster)?.ended ?? new Map<string, QueueEntry>();
  }

  private newest(cluster: string): Pick<QueueView, 'entries' | 'ended'> | undefined {
    const view = this.views.get(cluster);
    return view === undefined || view.freshness.asOf === null ? this.before.get(cluster) : view;
  }

  /** null: it is not looked at. */
  freshness(cluster: string): Freshness | null {
    return this.views.get(cluster)?.freshness ?? null;
  }

  look(model: ISlurmModel): void {
    const asked = (cluster: string): boolean => this.views.has(cluster) || this.before.has(cluster);
    const wanted = [...model.connections.values()]
      .filter(one => isOpen(one) || (one.state !== 'closed' && asked(one.cluster)))
      .map(one => one.cluster);
    for (const cluster of [...this.views.keys()].filter(one => !wanted.includes(one))) {
      this.leave(cluster);
    }
    for (const cluster of wanted.filter(one => !this.views.has(one))) {
      const view = model.queue(cluster, false);
      view.changed.connect(this.changed);
      this.views.set(cluster, view);
    }
    if (wanted.join('\n') !== this.clusters.join('\n')) {
      this.clusters = wanted;
    }
  }

  rest(): void {
    for (const cluster of [...this.views.keys()]) {
      this.leave(cluster);
    }
  }

  private leave(cluster: string): void {
    const entries = new Map(this.entries(cluster));
    this.before.set(cluster, { entries, ended: new Map(this.ended(cluster)) });
    this.views.get(cluster)?.dispose();
    this.views.delete(cluster);
  }
}
