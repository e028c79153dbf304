// Interfaces and tokens that the plugins share, and the IDs of commands. No code.
import { Token, type ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type {
  Cluster,
  Connection,
  Job,
  JobDetails,
  LogChunk,
  Node,
  Partition,
  Problem,
  Reservation,
  Row,
  UsageSample
} from './wire';

/** The age of the shown data, and its problem. */
export interface Freshness {
  /** UTC epoch seconds of the last news; null: none yet. */
  asOf: number | null;
  /** Why updates fail; null: no problem. */
  problem: Problem | null;
  /** Seconds between two listings; undefined: news is pushed. */
  intervalS?: number;
}

/** A cluster's queue, of this user or of everyone; changes by its signal. */
export interface QueueView extends IDisposable {
  /** The unfinished jobs; a new array for each change. */
  readonly rows: readonly Row[];
  readonly freshness: Freshness;
  readonly changed: ISignal<QueueView, void>;
}

export interface NodesView extends IDisposable {
  readonly cluster: string;
  readonly nodes: readonly Node[];
  readonly partitions: readonly Partition[];
  readonly reservations: readonly Reservation[];
  readonly freshness: Freshness;
  readonly changed: ISignal<NodesView, void>;
}

/** A feed that can rest and then resume. */
export interface Resting extends IDisposable {
  wake(): void;
  rest(): void;
}

/** A job's output so far. Each listener gets each chunk once. */
export interface LogView extends Resting {
  readonly jobId: string;
  /** A chunk has arrived; the next one follows when it is drawn. */
  readonly chunk: ISignal<LogView, LogChunk>;
  readonly ended: boolean;
  readonly freshness: Freshness;
  /** A chunk has arrived, or freshness has changed. */
  readonly changed: ISignal<LogView, void>;
}

export interface UsageView extends Resting {
  readonly jobId: string;
  readonly samples: readonly UsageSample[];
  readonly freshness: Freshness;
  readonly changed: ISignal<UsageView, void>;
}

/**
 * The clusters and jobs in this browser tab: the only source of every view, so that two views of a
 * job always agree. It requests only what is shown, and nothing while the tab is hidden.
 */
export interface ISlurmModel {
  readonly clusters: readonly Cluster[];
  /** The agent reports no cluster. */
  readonly hasNoCluster: boolean;
  /** The agent has listed the clusters, without this one. */
  isRemoved(cluster: string): boolean;
  /** By cluster. */
  readonly connections: ReadonlyMap<string, Connection>;
  /** Ours, by our id. */
  readonly jobs: ReadonlyMap<string, Job>;
  /** The freshness of jobs and connections. */
  readonly freshness: Freshness;
  /** Clusters, connections, jobs or freshness have changed; at most once a frame. */
  readonly changed: ISignal<ISlurmModel, void>;
  /** A job's state has changed; not emitted for the first news of a job. */
  readonly stateChanged: ISignal<ISlurmModel, { job: Job; before: Job['state'] }>;
  /**
   * This user's jobs, one row each: ours, and those in Slurm's last listing of a viewed cluster. A new
   * array for each change.
   */
  readonly rows: readonly Row[];
  /** The freshness of the listings of viewed clusters, by cluster. */
  readonly queues: ReadonlyMap<string, Freshness>;

  /**
   * Keeps clusters, connections and jobs up to date until it is disposed of; `background`: also
   * while the tab is hidden.
   */
  watchJobs(options?: { background?: boolean }): IDisposable;
  /**
   * The same for a job that is shown: while it is live, its cluster's queue is queried as often as the
   * profile allows.
   */
  watchJob(id: string): IDisposable;
  /** Whether a card or a panel shows that job now. */
  isSeen(id: string): boolean;
  /** Keeps the queue of this user's jobs on that cluster up to date until it is disposed of. */
  look(cluster: string): IDisposable;
  /** Everyone's jobs, or only this user's. */
  queue(cluster: string, everyone: boolean): QueueView;
  nodes(cluster: string): NodesView;
  /**
   * `budgetBytes`: the stream text to fetch when the log is opened, 256 KiB by default. Older output is
   * only counted. A later chunk has at most a mebibyte, so that a slow page stays at the end.
   */
  log(jobId: string, budgetBytes?: number, task?: number | null): LogView;
  usage(jobId: string): UsageView;
  details(jobId: string): Promise<JobDetails>;
  /** Logs in to a cluster, with dialogs; false: the user cancelled. Rejects if the login fails. */
  connect(cluster: string): Promise<boolean>;

  /**
   * Calls a method of `jupyter_slurm.api.Api` with named arguments. Rejects with a `SlurmError`, which
   * has the Problem.
   */
  call<T>(name: string, args?: Record<string, unknown>): Promise<T>;
  /** The same for calls that need a connection: logs in if needed. */
  callLoggedIn<T>(cluster: string, name: string, args?: Record<string, unknown>): Promise<T>;
}

export const ISlurmModel = new Token<ISlurmModel>(
  'jupyter-slurm:ISlurmModel',
  'The clusters and jobs that this browser tab knows.'
);

/** The button of a notification. */
export interface Lead {
  label: string;
  command: string;
  args: ReadonlyPartialJSONObject;
}

/** The one notification over the page. */
export interface INotifier {
  /** Show a message. `job`: the ID of its job. */
  say(message: string, lead: Lead | null, job?: string): void;
}

export const INotifier = new Token<INotifier>(
  'jupyter-slurm:INotifier',
  'The one notification of jupyter-slurm that is over the page.'
);

/** Command IDs; `describedBy` of each has its arguments. */
export const CommandIDs = {
  showSidebar: 'jupyter-slurm:show-sidebar',
  addCluster: 'jupyter-slurm:add-cluster',
  openQuickstart: 'jupyter-slurm:open-quickstart',
  openQueue: 'jupyter-slurm:open-queue',
  openNodes: 'jupyter-slurm:open-nodes',
  openJob: 'jupyter-slurm:open-job',
  mute: 'jupyter-slurm:mute',
  cancel: 'jupyter-slurm:cancel',
  hold: 'jupyter-slurm:hold',
  release: 'jupyter-slurm:release',
  requeue: 'jupyter-slurm:requeue',
  retry: 'jupyter-slurm:retry',
  extend: 'jupyter-slurm:extend',
  forget: 'jupyter-slurm:forget',
  copyId: 'jupyter-slurm:copy-id',
  openFolder: 'jupyter-slurm:open-folder',
  openTerminal: 'jupyter-slurm:open-terminal',
  browse: 'jupyter-slurm:browse',
  goToCell: 'jupyter-slurm:go-to-cell',
  connect: 'jupyter-slurm:connect',
  disconnect: 'jupyter-slurm:disconnect',
  openLab: 'jupyter-slurm:open-lab',
  openDashboard: 'jupyter-slurm:open-dashboard',
  copyLabLink: 'jupyter-slurm:copy-lab-link',
  startLab: 'jupyter-slurm:start-lab',
  newKernel: 'jupyter-slurm:new-kernel',
  openKernels: 'jupyter-slurm:open-kernels',
  submit: 'jupyter-slurm:submit',
  submitFile: 'jupyter-slurm:submit-file',
  submitCell: 'jupyter-slurm:submit-cell',
  submitAgain: 'jupyter-slurm:submit-again',
  submitNotebook: 'jupyter-slurm:submit-notebook',
  resubmit: 'jupyter-slurm:resubmit',
  restoreForm: 'jupyter-slurm:restore-form',
  find: 'jupyter-slurm:find',
  sendForm: 'jupyter-slurm:send-form'
} as const;
