// Feeds of a cluster's queue and nodes, and of a job's output and usage. Each applies the server's
// changes to a value. shared.ts shares them. No DOM, no calls.
import { Signal } from '@lumino/signaling';
import type { Freshness, LogView, Resting, UsageView } from '../tokens';
import type {
  Changes,
  LogChunk,
  Node,
  NodeChanges,
  Partition,
  QueueStatus,
  Reservation,
  Row,
  UsageChanges,
  UsageSample
} from '../wire';
import { Rows } from './rows';
import type { Listener, WatchOptions, WatchSocket, Watching } from './socket';

/** The output to fetch when a log is opened. */
const FIRST_BYTES = 256 * 1024;
/**
 * Maximum size of a later chunk of a log. If the job wrote more since the last chunk, older output
 * is skipped and shown as a gap, so that a slow page stays at the end.
 */
const FOLLOWED_BYTES = 1024 * 1024;
/** The interval of updates for a job that writes without pause. */
const PACE_MS = 150;

abstract class Feed<T extends { cursor: string }> implements Resting {
  freshness: Freshness = { asOf: null, problem: null };
  readonly changed = new Signal<this, void>(this);
  isDisposed = false;
  private watch: Watching | null = null;
  private cursor = '';

  constructor(
    private readonly socket: WatchSocket,
    private readonly call: string,
    private args: Record<string, unknown>,
    private readonly options: WatchOptions = {}
  ) {
    this.wake();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.isDisposed = true;
      this.rest();
      Signal.clearData(this);
    }
  }

  /** Start watching from the current state. */
  wake(): void {
    const { call, args, cursor, options } = this;
    this.watch ??= this.socket.watch(call, args, this.listener(), { ...options, cursor });
  }

  /** Stop watching, and keep the state. */
  rest(): void {
    this.watch?.dispose();
    this.watch = null;
  }

  protected abstract take(value: T): void;

  /** Acknowledge the last value of a paced feed once it is on the screen. */
  protected taken(): void {
    this.watch?.taken();
  }

  /** Continue with other arguments from the current state. */
  protected change(args: Record<string, unknown>): void {
    const before = this.watch;
    this.watch = null;
    this.args = args;
    this.wake();
    before?.dispose();
  }

  private listener(): Listener<T> {
    return {
      value: value => {
        this.cursor = value.cursor;
        this.freshness = { asOf: Date.now() / 1000, problem: null };
        this.take(value);
        this.changed.emit();
      },
      problem: problem => {
        this.freshness = { ...this.freshness, problem };
        this.changed.emit();
      }
    };
  }
}

/** The unfinished jobs of all users on a cluster. */
export class QueueFeed extends Feed<Changes> {
  private readonly known = new Rows();

  constructor(
    socket: WatchSocket,
    readonly cluster: string
  ) {
    super(socket, 'changes', { look: [cluster], everyone: true });
  }

  get rows(): readonly Row[] {
    return this.known.all;
  }

  protected take(changes: Changes): void {
    this.known.take(changes);
    for (const status of changes.queues) {
      this.freshness = answered(status);
    }
  }
}

export class NodesFeed extends Feed<NodeChanges> {
  nodes: readonly Node[] = [];
  partitions: readonly Partition[] = [];
  reservations: readonly Reservation[] = [];

  constructor(
    socket: WatchSocket,
    readonly cluster: string
  ) {
    super(socket, 'node_changes', { cluster });
  }

  protected take(changes: NodeChanges): void {
    this.freshness = answered(changes);
    if (changes.asked_s !== null) {
      this.nodes = changes.nodes;
      this.partitions = changes.partitions;
      this.reservations = changes.reservations;
    }
  }
}

export class LogFeed extends Feed<LogChunk> implements LogView {
  readonly chunk = new Signal<this, LogChunk>(this);
  ended = false;
  private timer = 0;
  private frame = 0;

  constructor(
    socket: WatchSocket,
    readonly jobId: string,
    private budgetBytes = FIRST_BYTES,
    private readonly task: number | null = null
  ) {
    super(socket, 'logs', logArgs(jobId, budgetBytes, task), { paced: true });
  }

  override rest(): void {
    window.clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    super.rest();
  }

  protected take(chunk: LogChunk): void {
    this.ended = chunk.end;
    this.chunk.emit(chunk);
    if (!this.isDisposed) {
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => {
        // Slow drawing delays the frame, and with it the next chunk.
        this.frame = requestAnimationFrame(() => this.next(chunk.more));
      }, PACE_MS);
    }
  }

  private next(more: boolean): void {
    if (more || this.ended || this.budgetBytes <= FOLLOWED_BYTES) {
      this.taken();
    } else {
      this.budgetBytes = FOLLOWED_BYTES;
      this.change(logArgs(this.jobId, FOLLOWED_BYTES, this.task));
    }
  }
}

function logArgs(jobId: string, budgetBytes: number, task: number | null): Record<string, unknown> {
  return { job_id: jobId, budget_bytes: budgetBytes, ...(task === null ? {} : { task }) };
}

export class UsageFeed extends Feed<UsageChanges> implements UsageView {
  samples: readonly UsageSample[] = [];
  /** The time of each node's last sample. */
  private readonly last = new Map<string, number>();

  constructor(
    socket: WatchSocket,
    readonly jobId: string
  ) {
    super(socket, 'usage', { job_id: jobId });
  }

  protected take(changes: UsageChanges): void {
    this.freshness = { ...this.freshness, problem: changes.problem };
    const news = changes.samples.filter(({ node, time_s: timeS }) => {
      const isNew = timeS > (this.last.get(node) ?? 0);
      if (isNew) {
        this.last.set(node, timeS);
      }
      return isNew;
    });
    this.samples = [...this.samples, ...news];
  }
}

/** The freshness of a listing. */
export function answered(changes: QueueStatus | NodeChanges): Freshness {
  const { asked_s: asOf, problem, interval_s: intervalS } = changes;
  return { asOf, problem, intervalS };
}
