// The source of every view: clusters, connections and jobs of the agent, and feeds. No DOM except
// the tab's visibility.
import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, DisposableSet, type IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { request, SlurmError } from '../server';
import { problem } from '../messages';
import { trans } from '../translation';
import type { Freshness, ISlurmModel, LogView, NodesView, QueueView, UsageView } from '../tokens';
import type { Changes, Cluster, Connection, Job, JobDetails, Problem, Row } from '../wire';
import { answered, LogFeed, NodesFeed, QueueFeed, UsageFeed } from './feeds';
import { MyQueue } from './my_queue';
import { Rows } from './rows';
import { SeenJobs } from './seen';
import { SharedFeeds, SharedNodes, SharedQueue } from './shared';
import { WatchSocket } from './socket';

/**
 * Log in to a cluster with dialogs; return false if the user cancelled. Reject with a SlurmError.
 */
export type Login = (model: ISlurmModel, cluster: string) => Promise<boolean>;

export class SlurmModel implements ISlurmModel, IDisposable {
  clusters: readonly Cluster[] = [];
  connections: ReadonlyMap<string, Connection> = new Map();
  freshness: Freshness = { asOf: null, problem: null };
  readonly changed = new Signal<this, void>(this);
  readonly stateChanged = new Signal<this, { job: Job; before: Job['state'] }>(this);
  queues: ReadonlyMap<string, Freshness> = new Map();
  isDisposed = false;

  private readonly socket: WatchSocket;
  private readonly known = new Rows();
  private readonly everyones = new SharedFeeds<QueueFeed>();
  /** By cluster, the number of views of this user's queue. */
  private readonly looks = new Map<string, number>();
  private readonly allNodes = new SharedFeeds<NodesFeed>();
  private readonly seen = new SeenJobs(this);
  private readonly logins = new Map<string, Promise<boolean>>();
  private readonly watchers = new Set<{ background: boolean }>();
  /** The arguments of the current watch, as JSON. */
  private watched = '';
  private cursor = '';
  private watching: IDisposable | null = null;
  private frame = 0;
  /** The connections at the last request for clusters; null to request them again. */
  private clustersOf: string | null = null;
  private areClustersKnown = false;
  /** The number of requests. Outdated answers are ignored. */
  private askedClusters = 0;

  constructor(
    private readonly settings: ServerConnection.ISettings,
    private readonly login: Login
  ) {
    this.socket = new WatchSocket(settings);
    document.addEventListener('visibilitychange', this.watchAsWanted);
  }

  get hasNoCluster(): boolean {
    return this.areClustersKnown && this.clusters.length === 0;
  }

  isRemoved(cluster: string): boolean {
    return this.areClustersKnown && !this.clusters.some(({ name }) => name === cluster);
  }

  get jobs(): ReadonlyMap<string, Job> {
    return this.known.jobs;
  }

  get rows(): readonly Row[] {
    return this.known.all;
  }

  dispose(): void {
    this.isDisposed = true;
    window.clearTimeout(this.frame);
    document.removeEventListener('visibilitychange', this.watchAsWanted);
    this.watching?.dispose();
    this.seen.dispose();
    this.everyones.dispose();
    this.allNodes.dispose();
    this.socket.dispose();
    Signal.clearData(this);
  }

  watchJobs({ background = false }: { background?: boolean } = {}): IDisposable {
    const watcher = { background };
    this.watchers.add(watcher);
    this.watchAsWanted();
    return new DisposableDelegate(() => {
      this.watchers.delete(watcher);
      this.watchAsWanted();
    });
  }

  watchJob(id: string): IDisposable {
    return DisposableSet.from([this.watchJobs(), this.seen.see(id)]);
  }

  isSeen(id: string): boolean {
    return !document.hidden && this.seen.has(id);
  }

  look(cluster: string): IDisposable {
    const add = (count: number): void => {
      const now = (this.looks.get(cluster) ?? 0) + count;
      if (now > 0) {
        this.looks.set(cluster, now);
      } else {
        this.looks.delete(cluster);
        this.queues = new Map([...this.queues].filter(([one]) => one !== cluster));
        this.tell();
      }
      this.watchAsWanted();
    };
    add(1);
    return new DisposableDelegate(() => add(-1));
  }

  queue(cluster: string, everyone: boolean): QueueView {
    if (!everyone) {
      return new MyQueue(this, cluster);
    }
    const feed = this.everyones.take(cluster, () => new QueueFeed(this.socket, cluster));
    return new SharedQueue(feed, () => this.everyones.giveBack(cluster));
  }

  nodes(cluster: string): NodesView {
    const feed = this.allNodes.take(cluster, () => new NodesFeed(this.socket, cluster));
    return new SharedNodes(feed, () => this.allNodes.giveBack(cluster));
  }

  log(jobId: string, budgetBytes?: number, task?: number | null): LogView {
    return new LogFeed(this.socket, jobId, budgetBytes, task);
  }

  usage(jobId: string): UsageView {
    return new UsageFeed(this.socket, jobId);
  }

  details(jobId: string): Promise<JobDetails> {
    return this.call('details', { job_id: jobId });
  }

  /** Concurrent calls for one cluster share one login. */
  connect(cluster: string): Promise<boolean> {
    const underWay = this.logins.get(cluster);
    if (underWay !== undefined) {
      return underWay;
    }
    const login = this.login(this, cluster).finally(() => this.logins.delete(cluster));
    this.logins.set(cluster, login);
    return login;
  }

  call<T>(name: string, args: Record<string, unknown> = {}): Promise<T> {
    return request<T>(this.settings, name, args);
  }

  async callLoggedIn<T>(
    cluster: string,
    name: string,
    args: Record<string, unknown> = {}
  ): Promise<T> {
    try {
      return await this.call<T>(name, args);
    } catch (error) {
      if (!(error instanceof SlurmError && error.problem.code === 'login-needed')) {
        throw error;
      }
      if (!(await this.connect(cluster))) {
        throw new SlurmError(givenUp(cluster), error.status);
      }
      return this.call<T>(name, args);
    }
  }

  private readonly watchAsWanted = (): void => {
    const background = [...this.watchers].some(one => one.background);
    // In the background, only our jobs are watched, and no queue.
    const look = background && document.hidden ? [] : [...this.looks.keys()].sort();
    const wanted =
      this.watchers.size + this.looks.size === 0 ? '' : JSON.stringify({ look, background });
    if (wanted === this.watched || this.isDisposed) {
      return;
    }
    this.watched = wanted;
    const before = this.watching;
    this.watching =
      wanted === ''
        ? null
        : this.socket.watch<Changes>(
            'changes',
            { look },
            {
              value: changes => this.take(changes),
              problem: found => {
                this.freshness = { ...this.freshness, problem: found };
                this.tell();
              }
            },
            { background, cursor: this.cursor }
          );
    before?.dispose();
  };

  private take(changes: Changes): void {
    this.cursor = changes.cursor;
    this.freshness = { asOf: Date.now() / 1000, problem: null };
    const before = changes.jobs.map(job => this.jobs.get(job.id));
    this.known.take(changes);
    changes.jobs.forEach((job, at) => {
      const was = before[at];
      if (was !== undefined && was.state !== job.state) {
        this.stateChanged.emit({ job, before: was.state });
      }
    });
    this.queues = new Map(changes.queues.map(one => [one.cluster, answered(one)]));
    if (changes.connections !== null) {
      this.connections = new Map(changes.connections.map(one => [one.cluster, one]));
    }
    const named = [...this.connections.keys()].sort().join('\n');
    if (changes.whole || named !== this.clustersOf) {
      this.clustersOf = named;
      void this.askClusters();
    }
    this.seen.adapt();
    this.tell();
  }

  private async askClusters(): Promise<void> {
    const asked = ++this.askedClusters;
    try {
      const clusters = await this.call<Cluster[]>('clusters');
      if (asked === this.askedClusters) {
        this.clusters = clusters;
        this.areClustersKnown = true;
      }
    } catch (error) {
      if (asked === this.askedClusters) {
        this.clustersOf = null;
        this.freshness = { ...this.freshness, problem: problemOf(error) };
      }
    }
    this.tell();
  }

  /** Report changes, at most once per frame. */
  private tell(): void {
    if (this.frame === 0) {
      this.frame = window.setTimeout(() => {
        this.frame = 0;
        this.changed.emit();
      }, 16);
    }
  }
}

function givenUp(cluster: string): Problem {
  const message = trans.__('Login to %1 cancelled.', cluster);
  return problem('login-needed', message, { hint: trans.__('Log in again to continue.') });
}

/** Return the problem of any thrown value. */
export function problemOf(error: unknown): Problem {
  if (error instanceof SlurmError) {
    return error.problem;
  }
  return problem('browser', error instanceof Error ? error.message : String(error));
}
