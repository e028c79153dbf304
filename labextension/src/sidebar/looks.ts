// The clusters whose queues the sidebar watches while visible.
import type { IDisposable } from '@lumino/disposable';
import { isOpen } from '../format';
import type { ISlurmModel } from '../tokens';

export class Looks {
  /** Connected clusters, and those with a lost connection. */
  clusters: readonly string[] = [];
  private readonly looks = new Map<string, IDisposable>();

  look(model: ISlurmModel): void {
    const wanted = [...model.connections.values()]
      .filter(one => isOpen(one) || (one.state !== 'closed' && this.clusters.includes(one.cluster)))
      .map(one => one.cluster);
    for (const [cluster, look] of this.looks) {
      if (!wanted.includes(cluster)) {
        look.dispose();
        this.looks.delete(cluster);
      }
    }
    for (const cluster of wanted.filter(one => !this.looks.has(one))) {
      this.looks.set(cluster, model.look(cluster));
    }
    if (wanted.join('\n') !== this.clusters.join('\n')) {
      this.clusters = wanted;
    }
  }

  rest(): void {
    this.looks.forEach(look => look.dispose());
    this.looks.clear();
  }
}
