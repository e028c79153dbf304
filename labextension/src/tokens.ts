// What the plugins of this extension know of each other: the model's face, and the ids of commands.
// No code lives here.
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

/** Whether what is shown is true. */
export interface Freshness {
  /** UTC epoch seconds of the last news; null: there was none yet. */
  asOf: number | null;
  /** Why nothing newer is known; null: all is well. */
  problem: Problem | null;
  /** Seconds between two listings; undefined: news come when there are some. */
  intervalS?: number;
}

/** A cluster's queue, of this user or of everyone; changes by its signal. */
export interface QueueView extends IDisposable {
  /** The unfinished jobs; another array whenever one has changed. */
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

/** A feed that can rest for a while and then goes on from where it was. */
export interface Resting extends IDisposable {
  wake(): void;
  rest(): void;
}

/** A job's output, as far as it has come; a chunk is given to each listener once. */
export interface LogView extends Resting {
  readonly jobId: string;
  /** A chunk has come; the next one comes when this one has been drawn. */
  readonly chunk: ISignal<LogView, LogChunk>;
  readonly ended: boolean;
  readonly freshness: Freshness;
  /** A chunk has come, or freshness has changed. */
  readonly changed: ISignal<LogView, void>;
}

export interface UsageView extends Resting {
  readonly jobId: string;
  readonly samples: readonly UsageSample[];
  readonly freshness: Freshness;
  readonly changed: ISignal<UsageView, void>;
}

/**
 * All that is known of clusters and jobs in this browser tab: the one source of every view, so that
 * two views of a job always agree. It asks for what somebody shows, and for nothing while the tab
 * is hidden.
 */
export interface ISlurmModel {
  readonly clusters: readonly Cluster[];
  /** The agent has said that there is none. */
  readonly hasNoCluster: boolean;
  /** The agent has said which clusters there are, and that one is not among them. */
  isRemoved(cluster: string): boolean;
  /** By cluster. */
  readonly connections: ReadonlyMap<string, Connection>;
  /** Ours, by our id. */
  readonly jobs: ReadonlyMap<string, Job>;
  /** What is done to many jobs at once; another array whenever that has changed. */
  readonly freshness: Freshness;
  /** Clusters, connections, jobs or freshness have changed; at most once a frame. */
  readonly changed: ISignal<ISlurmModel, void>;
  /** A job is in another state than it was; the first news of a job is none. */
  readonly stateChanged: ISignal<ISlurmModel, { job: Job; before: Job['state'] }>;
  /**
   * This user's jobs, one row each: ours, and those that Slurm listed when a view last looked at
   * their cluster. Another array whenever a row has changed.
   */
  readonly rows: readonly Row[];
  /** How new the listings are of the clusters that views look at, by cluster. */
  readonly queues: ReadonlyMap<string, Freshness>;

  /**
   * Keeps clusters, connections and jobs up to date until it is disposed of; `background`: also
   * while the tab is hidden.
   */
  watchJobs(options?: { background?: boolean }): IDisposable;
  /**
   * The same for one that somebody sees: while it lives, its cluster's queue is asked for as often
   * as its profile allows.
   */
  watchJob(id: string): IDisposable;
  /** Whether somebody sees that job now, in a card or a panel. */
  isSeen(id: string): boolean;
  /** Keeps the queue of this user's jobs on that cluster up to date until it is disposed of. */
  look(cluster: string): IDisposable;
  /** Everyone's jobs, or only this user's. */
  queue(cluster: string, everyone: boolean): QueueView;
  nodes(cluster: string): NodesView;
  /**
   * `budgetBytes`: of what is older than so much stream text when it is opened only the amount is
   * told; 256 KiB by default. Of what is written from then on, what is older than a mebibyte at a
   * chunk, so that a page that is slower than the job stays at its end.
   */
  log(jobId: string, budgetBytes?: number, task?: number | null): LogView;
  usage(jobId: string): UsageView;
  details(jobId: string): Promise<JobDetails>;
  /** Logs in to a cluster, with whoever sits there; false: they gave up. Rejects: it failed. */
  connect(cluster: string): Promise<boolean>;

  /**
   * A call of `jupyter_slurm.api.Api` by its name, its arguments by theirs. Rejects with a
   * `SlurmError`, which holds the Problem.
   */
  call<T>(name: string, args?: Record<string, unknown>): Promise<T>;
  /** The same for calls that need a way to the cluster: asks for a login where one is needed. */
  callLoggedIn<T>(cluster: string, name: string, args?: Record<string, unknown>): Promise<T>;
}

export const ISlurmModel = new Token<ISlurmModel>(
  'jupyter-slurm:ISlurmModel',
  'The clusters and jobs that this browser tab knows.'
);

/** What a notification leads to. */
export interface Lead {
  label: string;
  command: string;
  args: ReadonlyPartialJSONObject;
}

/** The one notification over the page. */
export interface INotifier {
  /** Announce something, in the notification of jobs where one is shown; `job` is the id of the job
   * that it comes from. */
  say(message: string, lead: Lead | null, job?: string): void;
}

export const INotifier = new Token<INotifier>(
  'jupyter-slurm:INotifier',
  'The one notification of jupyter-slurm that is over the page.'
);

/** Command ids; their arguments are in the describedBy of each. */
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
