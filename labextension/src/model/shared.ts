// One feed for all views of the same data. It is created for the first view, rests after the last,
// and is disposed of if unused. Each view has its own signal, so that disposing of a view leaves no
// listeners. No sockets, no DOM.
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { Freshness, NodesView, QueueView, Resting } from '../tokens';
import type { Node, Partition, Reservation, Row } from '../wire';
import type { NodesFeed, QueueFeed } from './feeds';

/** Time to keep an unused feed. A view that opens within this time gets only changes. */
const KEPT_MS = 600_000;

interface Shared<F> {
  feed: F;
  users: number;
  end: number;
}

/** Feeds by key. */
export class SharedFeeds<F extends Resting> implements IDisposable {
  private readonly shared = new Map<string, Shared<F>>();
  isDisposed = false;

  /** Return the feed of the key; create a missing feed. Each caller releases the feed once. */
  take(key: string, make: () => F): F {
    const found = this.shared.get(key) ?? { feed: make(), users: 0, end: 0 };
    found.users += 1;
    window.clearTimeout(found.end);
    found.feed.wake();
    this.shared.set(key, found);
    return found.feed;
  }

  giveBack(key: string): void {
    const found = this.shared.get(key);
    if (found === undefined) {
      return;
    }
    found.users -= 1;
    if (found.users === 0) {
      found.feed.rest();
      found.end = window.setTimeout(() => {
        this.shared.delete(key);
        found.feed.dispose();
      }, KEPT_MS);
    }
  }

  dispose(): void {
    this.isDisposed = true;
    for (const { feed, end } of this.shared.values()) {
      window.clearTimeout(end);
      feed.dispose();
    }
    this.shared.clear();
  }
}

abstract class FeedView<F extends QueueFeed | NodesFeed> implements IDisposable {
  readonly changed = new Signal<this, void>(this);
  isDisposed = false;

  constructor(
    protected readonly feed: F,
    private readonly giveBack: () => void
  ) {
    feed.changed.connect(this.tell, this);
  }

  get cluster(): string {
    return this.feed.cluster;
  }

  get freshness(): Freshness {
    return this.feed.freshness;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.isDisposed = true;
      Signal.clearData(this);
      this.giveBack();
    }
  }

  private tell(): void {
    this.changed.emit();
  }
}

export class SharedQueue extends FeedView<QueueFeed> implements QueueView {
  get rows(): readonly Row[] {
    return this.feed.rows;
  }
}

export class SharedNodes extends FeedView<NodesFeed> implements NodesView {
  get nodes(): readonly Node[] {
    return this.feed.nodes;
  }

  get partitions(): readonly Partition[] {
    return this.feed.partitions;
  }

  get reservations(): readonly Reservation[] {
    return this.feed.reservations;
  }
}
