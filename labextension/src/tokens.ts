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
  /** UTC epoch seconds of the last news; null before the first news. */
  asOf: number | null;
  /** The reason why updates fail; null while they succeed. */
  problem: Problem | null;
  /** Seconds between two listings; undefined if news is pushed. */
  intervalS?: number;
}

/** A cluster's queue, of this user or of all users. Its signal reports changes. */
export interface QueueView extends IDisposable {
  /** The unfinished jobs. Each change creates a new array. */
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

/** A job's output so far. Each listener receives each chunk once. */
export interface LogView extends Resting {
  readonly jobId: string;
  /** Emitted when a chunk has arrived. The next one follows when it is drawn. */
  readonly chunk: ISignal<LogView, LogChunk>;
  readonly ended: boolean;
  readonly freshness: Freshness;
  /** Emitted when a chunk has arrived, or when freshness has changed. */
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
 * job always agree. It requests only shown data, and none while the tab is hidden.
 */
export interface ISlurmModel {
  readonly clusters: readonly Cluster[];
  /** True if the agent reports no cluster. */
  readonly hasNoCluster: boolean;
  /** True if the agent has listed the clusters without this one. */
  isRemoved(cluster: string): boolean;
  /** The connections by cluster. */
  readonly connections: ReadonlyMap<string, Connection>;
  /** Our jobs, by our ID. */
  readonly jobs: ReadonlyMap<string, Job>;
  /** The freshness of jobs and connections. */
  readonly freshness: Freshness;
  /** Emitted when clusters, connections, jobs or freshness have changed; at most once a frame. */
  readonly changed: ISignal<ISlurmModel, void>;
  /** Emitted when a job's state has changed, but not for the first news of a job. */
  readonly stateChanged: ISignal<ISlurmModel, { job: Job; before: Job['state'] }>;
  /**
   * This user's jobs, one row each: our jobs, and those in Slurm's last listing of a viewed
   * cluster. Each change creates a new array.
   */
  readonly rows: readonly Row[];
  /** The freshness of the listings of viewed clusters, by cluster. */
  readonly queues: ReadonlyMap<string, Freshness>;

  /**
   * Keep clusters, connections and jobs up to date until the returned object is disposed of. With
   * `background`, continue while the tab is hidden.
   */
  watchJobs(options?: { background?: boolean }): IDisposable;
  /**
   * Keep a shown job up to date in the same way. While it is live, its cluster's queue is queried
   * as often as the profile allows.
   */
  watchJob(id: string): IDisposable;
  /** Return whether a card or a panel shows that job now. */
  isSeen(id: string): boolean;
  /**
   * Keep the queue of this user's jobs on that cluster up to date until the returned object is
   * disposed of.
   */
  look(cluster: string): IDisposable;
  /** Return everyone's jobs, or only this user's. */
  queue(cluster: string, everyone: boolean): QueueView;
  nodes(cluster: string): NodesView;
  /**
   * Return the job's output. `budgetBytes` is the stream text to fetch when the log is opened, 256
   * KiB by default. Older output is only counted. A later chunk has at most a mebibyte, so that a
   * slow page stays at the end.
   */
  log(jobId: string, budgetBytes?: number, task?: number | null): LogView;
  usage(jobId: string): UsageView;
  details(jobId: string): Promise<JobDetails>;
  /**
   * Log in to a cluster, with dialogs; return false if the user cancelled. Reject if the login
   * fails.
   */
  connect(cluster: string): Promise<boolean>;

  /**
   * Call a method of `jupyter_slurm.api.Api` with named arguments. Reject with a `SlurmError`,
   * which has the Problem.
   */
  call<T>(name: string, args?: Record<string, unknown>): Promise<T>;
  /** Make a call that needs a connection. Log in if needed. */
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

/** The single notification over the page. */
export interface INotifier {
  /** Show a message. `job` is the ID of its job. */
  say(message: string, lead: Lead | null, job?: string): void;
}

export const INotifier = new Token<INotifier>(
  'jupyter-slurm:INotifier',
  'The one notification of jupyter-slurm that is over the page.'
);

/** Command IDs. `describedBy` of each command has its arguments. */
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
