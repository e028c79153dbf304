// The one source of every view: clusters, connections and jobs as the agent knows them, and the
// feeds of what is shown beside them. No DOM but the tab's visibility; how it looks is the views'.
import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, DisposableSet, type IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { request, SlurmError } from '../server';
import { isOpen } from '../format';
import { problem } from '../messages';
import type { Freshness, ISlurmModel, LogView, NodesView, QueueView, UsageView } from '../tokens';
import type { Changes, Cluster, Connection, Job, JobDetails, Problem, QueueEntry } from '../wire';
import { LogFeed, NodesFeed, QueueFeed, UsageFeed } from './feeds';
import { SeenJobs } from './seen';
import { SharedFeeds, SharedNodes, SharedQueue } from './shared';
import { WatchSocket } from './socket';

/** Logs in to a cluster with whoever sits there; false: they gave up. Rejects with a SlurmError. */
export type Login = (model: ISlurmModel, cluster: string) => Promise<boolean>;

export class SlurmModel implements ISlurmModel, IDisposable {
  clusters: readonly Cluster[] = [];
  connections: ReadonlyMap<string, Connection> = new Map();
  readonly jobs = new Map<string, Job>();
  freshness: Freshness = { asOf: null, problem: null };
  readonly changed = new Signal<this, void>(this);
  readonly stateChanged = new Signal<this, { job: Job; before: Job['state'] }>(this);
  readonly listedChanged = new Signal<this, void>(this);
  isDisposed = false;

  private readonly socket: WatchSocket;
  private readonly queues = new SharedFeeds<QueueFeed>();
  private readonly allNodes = new SharedFeeds<NodesFeed>();
  private readonly seen = new SeenJobs(this);
  private readonly logins = new Map<string, Promise<boolean>>();
  private readonly watchers = new Set<{ background: boolean }>();
  private watchesInBackground = false;
  private watching: IDisposable | null = null;
  private frame = 0;
  /** The connections there were when the clusters were asked for; null: they are to be. */
  private clustersOf: string | null = null;
  private areClustersKnown = false;
  /** How often they were: an answer that a later one has overtaken is none. */
  private askedClusters = 0;

  constructor(
    private readonly settings: ServerConnection.ISettings,
    private readonly login: Login
  ) {
    this.socket = new WatchSocket(settings);
  }

  get hasNoCluster(): boolean {
    return this.areClustersKnown && this.clusters.length === 0;
  }

  isRemoved(cluster: string): boolean {
    return this.areClustersKnown && !this.clusters.some(({ name }) => name === cluster);
  }

  get listed(): QueueEntry[] {
    return this.ownQueues.flatMap(({ entries }) => [...entries.values()]);
  }

  get listsAll(): boolean {
    const known = new Set(this.ownQueues.map(({ cluster }) => cluster));
    return [...this.connections.values()].every(one => !isOpen(one) || known.has(one.cluster));
  }

  private get ownQueues(): QueueFeed[] {
    return this.queues.inUse.filter(
      ({ everyone, freshness }) => !everyone && freshness.asOf !== null
    );
  }

  dispose(): void {
    this.isDisposed = true;
    window.clearTimeout(this.frame);
    this.watching?.dispose();
    this.seen.dispose();
    this.queues.dispose();
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

  queue(cluster: string, everyone: boolean): QueueView {
    const key = JSON.stringify([cluster, everyone]);
    const told = (): void => this.listedChanged.emit();
    const feed = this.queues.take(key, () => {
      const made = new QueueFeed(this.socket, cluster, everyone);
      made.changed.connect(told);
      return made;
    });
    return new SharedQueue(feed, () => {
      this.queues.giveBack(key);
      told();
    });
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

  /** Whoever wants the same login while it goes on waits for its end: nobody is asked twice. */
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

  private watchAsWanted(): void {
    const background = [...this.watchers].some(one => one.background);
    if (this.watchers.size === 0 || background !== this.watchesInBackground) {
      this.watching?.dispose();
      this.watching = null;
    }
    this.watchesInBackground = background;
    if (this.watchers.size > 0) {
      this.watching ??= this.socket.watch<Changes>(
        'changes',
        {},
        {
          value: changes => this.take(changes),
          problem: found => {
            this.freshness = { ...this.freshness, problem: found };
            this.tell();
          }
        },
        { background }
      );
    }
  }

  private take(changes: Changes): void {
    this.freshness = { asOf: Date.now() / 1000, problem: null };
    if (changes.whole) {
      const there = new Set(changes.jobs.map(job => job.id));
      for (const id of [...this.jobs.keys()].filter(one => !there.has(one))) {
        this.jobs.delete(id);
      }
    }
    for (const id of changes.gone) {
      this.jobs.delete(id);
    }
    for (const job of changes.jobs) {
      this.put(job);
    }
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

  private put(job: Job): void {
    const before = this.jobs.get(job.id);
    this.jobs.set(job.id, job);
    if (before !== undefined && before.state !== job.state) {
      this.stateChanged.emit({ job, before: before.state });
    }
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

  /** At most once a frame, however much comes in. */
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
  const message = `The login to ${cluster} was given up.`;
  return problem('login-needed', message, { hint: 'Nothing was done.' });
}

/** What went wrong, for people; whatever was thrown. */
export function problemOf(error: unknown): Problem {
  if (error instanceof SlurmError) {
    return error.problem;
  }
  return problem('browser', error instanceof Error ? error.message : String(error));
}
