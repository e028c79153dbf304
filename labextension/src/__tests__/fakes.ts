// Fakes for tests: a job, and a model that tests change.
import { Signal } from '@lumino/signaling';
import type { Freshness, ISlurmModel } from '../tokens';
import type { Cluster, Connection, Job, ListedJob, Row } from '../wire';

export const NOW_S = 1_790_000_000;

type Own<T> = T extends unknown ? Partial<T> : never;
/** Some fields of a job of any kind. */
export type Fields = Own<Job>;

/** Fields of one kind of job. */
const OWN = {
  cell: {
    names_out: [],
    out_format: 'auto',
    session: null,
    session_ends_s: null,
    launch: null,
    names_gather: [],
    ranks: 0,
    tensorboard: null
  },
  sweep: {
    names_out: [],
    out_format: 'auto',
    names_params: [],
    max_running: null,
    max_fails: null,
    into: 'results',
    arrays: ['123'],
    stopped_s: null
  },
  program: { on_login: false },
  script: {},
  session: { idle_s: null, idle_since_s: null },
  kernel: { idle_s: null },
  lab: { idle_s: null, idle_since_s: null, lab: null }
};

export function job(fields: Fields = {}): Job {
  return {
    id: 'a2b4c6d7',
    cluster: 'arandu',
    name: 'fit',
    kind: 'cell',
    state: 'RUNNING',
    revision: 1,
    slurm_id: '123',
    restarts: 0,
    reason: null,
    why: null,
    advice: null,
    warning: null,
    problem: null,
    problem_since_s: null,
    created_s: NOW_S - 200,
    state_since_s: NOW_S - 125,
    submitted_s: NOW_S - 200,
    started_s: NOW_S - 125,
    ended_s: null,
    erased_s: null,
    start_estimate_s: null,
    limit_s: 3600,
    partition: 'gpu',
    account: null,
    qos: null,
    nodes: ['n1'],
    gpus: 2,
    image: null,
    runtime: 'none',
    exit_code: null,
    signal: null,
    usage: null,
    cancel_requested_s: null,
    no_requeue: null,
    tasks: {},
    inferred: false,
    delivered: true,
    notebook: null,
    fingerprint: null,
    job_dir: '/home/ana/jobs/a2b4c6d7',
    python: null,
    python_path: '',
    fetch: [],
    fetch_to: null,
    transfer: null,
    ...OWN[fields.kind ?? 'cell'],
    ...fields
  } as Job;
}

/** A job that only Slurm lists. */
export function listed(slurm_id: string, fields: Partial<ListedJob> = {}): ListedJob {
  return {
    ...{ kind: 'listed', cluster: 'arandu', name: `job ${slurm_id}`, state: 'RUNNING', mine: true },
    ...{ slurm_id, user: 'ana', partition: 'p', ...fields }
  };
}

export function connection(fields: Partial<Connection> = {}): Connection {
  return {
    cluster: 'arandu',
    state: 'open',
    since_s: NOW_S - 900,
    hosts: ['arandu.example'],
    question: null,
    problem: null,
    round_trip_s: null,
    ...fields
  };
}

/** A model whose jobs a test sets. */
export class FakeModel implements ISlurmModel {
  clusters: readonly Cluster[] = [];
  hasNoCluster = false;
  connections: ReadonlyMap<string, Connection> = new Map();
  readonly jobs = new Map<string, Job>();
  freshness: Freshness = { asOf: null, problem: null };
  readonly changed = new Signal<this, void>(this);
  readonly stateChanged = new Signal<this, { job: Job; before: Job['state'] }>(this);
  /** This user's other jobs. */
  listed: readonly ListedJob[] = [];
  queues: ReadonlyMap<string, Freshness> = new Map();
  watchers: { background: boolean }[] = [];
  /** The IDs of jobs that are watched individually. */
  seen: string[] = [];

  get rows(): readonly Row[] {
    return [...this.jobs.values(), ...this.listed];
  }

  /** Add or change a job. */
  put(news: Job): void {
    const before = this.jobs.get(news.id);
    this.jobs.set(news.id, news);
    this.freshness = { asOf: NOW_S, problem: null };
    if (before !== undefined && before.state !== news.state) {
      this.stateChanged.emit({ job: news, before: before.state });
    }
    this.changed.emit();
  }

  watchJobs({ background = false } = {}): ReturnType<ISlurmModel['watchJobs']> {
    const watcher = { background };
    this.watchers.push(watcher);
    return {
      isDisposed: false,
      dispose: () => {
        this.watchers = this.watchers.filter(one => one !== watcher);
      }
    };
  }

  watchJob(id: string): ReturnType<ISlurmModel['watchJob']> {
    this.seen.push(id);
    const watched = this.watchJobs();
    return {
      isDisposed: false,
      dispose: () => {
        watched.dispose();
        this.seen = this.seen.filter(one => one !== id);
      }
    };
  }

  isRemoved(): boolean {
    return false;
  }

  isSeen(id: string): boolean {
    return this.seen.includes(id);
  }

  look(): ReturnType<ISlurmModel['look']> {
    return { isDisposed: false, dispose: () => undefined };
  }

  readonly queue = unused;
  readonly nodes = unused;
  readonly log = unused;
  readonly usage = unused;
  readonly details = unused;
  readonly connect = unused;
  readonly call = unused;
  readonly callLoggedIn = unused;
}

function unused(): never {
  throw new Error('no test needs it');
}
