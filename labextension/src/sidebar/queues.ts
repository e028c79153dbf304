// What the sidebar's parts are told of: the queues it looks at, and that there is something new. Types
// alone.
import type { Freshness } from '../tokens';
import type { QueueEntry } from '../wire';

/** The queues that the sidebar looks at while it is seen. */
export interface Queues {
  /** Of clusters that can be asked, or could be before they were lost. */
  readonly clusters: readonly string[];
  entries(cluster: string): ReadonlyMap<string, QueueEntry>;
  /** Those that were submitted elsewhere and have ended. */
  ended(cluster: string): ReadonlyMap<string, QueueEntry>;
  /** null: it is not looked at. */
  freshness(cluster: string): Freshness | null;
}

/** Another whenever there is something new, and now and then for the clock's sake. */
export interface News {
  readonly atS: number;
}
