// My jobs in groups and in their order, kept from one piece of news to the next: what has not changed
// is the same object, so that only what has is made and drawn anew. No DOM, no clock, no model.
import type { Job, QueueEntry } from '../wire';
import { compare, groupOf, keyOf, rowsOf, type JobRow } from './rows';

type Entries = ReadonlyMap<string, Iterable<QueueEntry>>;

/** All that is known of one id of Slurm's on its cluster. */
interface Bucket {
  cluster: string;
  jobs: Set<Job>;
  entries: Set<QueueEntry>;
  past: Set<QueueEntry>;
  rows: JobRow[];
}

type Source = 'jobs' | 'entries' | 'past';

/** Where something that was told is kept, and in which update it was there last. */
interface Held {
  turn: number;
  key: string;
  source: Source;
}

/** What is listed at one moment. */
export interface Listing {
  /** By group, each in its order. */
  groups: ReadonlyMap<string, readonly JobRow[]>;
  /** The key that a row has now, by the one that it had while only Slurm knew the job. */
  keyNow: (key: string) => string;
}

export class JobIndex {
  private listing: Listing = { groups: new Map(), keyNow: key => key };
  private readonly buckets = new Map<string, Bucket>();
  private readonly held = new Map<Job | QueueEntry, Held>();
  private turn = 0;

  /**
   * `queues`: this user's entries of each cluster that is looked at; `past`: those that ended. The
   * same listing as before where nothing has changed.
   */
  update(jobs: Iterable<Job>, queues: Entries, past: Entries): Listing {
    this.turn += 1;
    const touched = new Set<string>();
    for (const job of jobs) {
      this.hold(job, 'jobs', job.cluster, job.slurm_id ?? job.id, touched);
    }
    for (const [source, told] of [
      ['entries', queues],
      ['past', past]
    ] as const) {
      for (const [cluster, entries] of told) {
        for (const entry of entries) {
          this.hold(entry, source, cluster, entry.array_id ?? entry.slurm_id, touched);
        }
      }
    }
    for (const [value, { turn, key, source }] of this.held) {
      if (turn !== this.turn) {
        this.held.delete(value);
        (this.buckets.get(key)?.[source] as Set<unknown>).delete(value);
        touched.add(key);
      }
    }
    if (touched.size > 0) {
      this.regroup(touched);
    }
    return this.listing;
  }

  private readonly keyNow = (key: string): string => {
    const rows = this.buckets.get(key)?.rows ?? [];
    const isKept = rows.some(row => row.key === key);
    return isKept ? key : (rows.find(row => row.job !== null)?.key ?? key);
  };

  private hold(
    value: Job | QueueEntry,
    source: Source,
    cluster: string,
    id: string,
    touched: Set<string>
  ): void {
    const held = this.held.get(value);
    if (held !== undefined) {
      held.turn = this.turn;
      return;
    }
    const key = keyOf(cluster, id);
    let bucket = this.buckets.get(key);
    if (bucket === undefined) {
      bucket = { cluster, jobs: new Set(), entries: new Set(), past: new Set(), rows: [] };
      this.buckets.set(key, bucket);
    }
    this.held.set(value, { turn: this.turn, key, source });
    (bucket[source] as Set<unknown>).add(value);
    touched.add(key);
  }

  private regroup(touched: ReadonlySet<string>): void {
    const gone = new Set<JobRow>();
    const come = new Map<string, JobRow[]>();
    for (const key of touched) {
      const bucket = this.buckets.get(key);
      if (bucket !== undefined) {
        bucket.rows.forEach(row => gone.add(row));
        bucket.rows = rowsOf(bucket.cluster, bucket);
        for (const row of bucket.rows) {
          const group = groupOf(row);
          const some = come.get(group) ?? [];
          some.push(row);
          come.set(group, some);
        }
        if (bucket.rows.length === 0) {
          this.buckets.delete(key);
        }
      }
    }
    const grouped = new Map<string, readonly JobRow[]>();
    for (const group of new Set([...this.listing.groups.keys(), ...come.keys()])) {
      const before = this.listing.groups.get(group) ?? [];
      const stay = before.some(row => gone.has(row))
        ? before.filter(row => !gone.has(row))
        : before;
      const more = come.get(group) ?? [];
      const rows = more.length > 0 ? [...stay, ...more].sort(compare) : stay;
      if (rows.length > 0) {
        grouped.set(group, rows);
      }
    }
    this.listing = { groups: grouped, keyNow: this.keyNow };
  }
}
