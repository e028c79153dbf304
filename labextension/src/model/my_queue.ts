// This user's unfinished jobs on one cluster, which are part of the model's rows. No sockets.
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { isFinal } from '../format';
import type { Freshness, ISlurmModel, QueueView } from '../tokens';
import type { Row } from '../wire';

export class MyQueue implements QueueView {
  readonly changed = new Signal<this, void>(this);
  isDisposed = false;
  private readonly look: IDisposable;
  private from: readonly Row[] = [];
  private found: readonly Row[] = [];

  constructor(
    private readonly model: ISlurmModel,
    private readonly cluster: string
  ) {
    this.look = model.look(cluster);
    model.changed.connect(this.tell, this);
  }

  get rows(): readonly Row[] {
    const { rows } = this.model;
    if (rows !== this.from) {
      this.from = rows;
      this.found = rows.filter(
        ({ cluster, slurm_id: id, state }) =>
          cluster === this.cluster && id != null && !isFinal(state)
      );
    }
    return this.found;
  }

  get freshness(): Freshness {
    return this.model.queues.get(this.cluster) ?? { asOf: null, problem: null };
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.isDisposed = true;
      Signal.clearData(this);
      this.look.dispose();
    }
  }

  private tell(): void {
    this.changed.emit();
  }
}
