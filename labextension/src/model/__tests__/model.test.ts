import type { Login } from '../model';
import { SlurmModel } from '../model';
import { SlurmError } from '../../server';
import { listed } from '../../__tests__/fakes';
import type { Changes, Cluster, Connection, Job, Problem, QueueStatus } from '../../wire';
import { FakeSocket, hideTab, settings } from './fakes';

jest.mock('../../server', () => ({
  ...jest.requireActual<typeof import('../../server')>('../../server'),
  request: (_: unknown, name: string): Promise<unknown> => asked(name)
}));

const calls: string[] = [];
/** The server's answers by call. They may throw. */
let answers: Record<string, () => unknown>;
let login: jest.MockedFunction<Login>;
let model: SlurmModel;

async function asked(name: string): Promise<unknown> {
  calls.push(name);
  return await answers[name]?.();
}

function refuse(problem: Problem): never {
  throw new SlurmError(problem, 409);
}

function job(id: string, state: Job['state'], more: Partial<Job> = {}): Job {
  return { id, state, name: id, cluster: 'a', slurm_id: '1', ...more } as Job;
}

function changes(more: Partial<Changes>): Changes {
  return {
    cursor: 'c',
    whole: false,
    jobs: [],
    listed: [],
    listed_whole: [],
    gone: [],
    queues: [],
    connections: null,
    results: [],
    ...more
  };
}

function status(more: Partial<QueueStatus> = {}): QueueStatus {
  return { cluster: 'a', asked_s: 100, problem: null, interval_s: 10, ...more };
}

function other(slurm_id: string, cluster = 'a'): Changes['listed'][number] {
  return listed(slurm_id, { cluster });
}

function connection(cluster: string): Connection {
  return {
    cluster,
    state: 'local',
    hosts: [],
    question: null,
    problem: null
  } as unknown as Connection;
}

/** The watches, the oldest first. */
function watched(socket: FakeSocket): { watch?: number; args?: object; cursor?: string }[] {
  const left = socket.sent.map(sent => sent.unwatch);
  const begun = socket.sent.filter(sent => sent.watch !== undefined && !left.includes(sent.watch));
  return [...new Map(begun.map(sent => [sent.watch, sent])).values()].map(
    ({ watch, args, cursor }) => ({ watch, args, cursor })
  );
}

/** Wait for pending promises and a frame. */
async function settled(): Promise<void> {
  await jest.advanceTimersByTimeAsync(20);
}

beforeEach(() => {
  jest.useFakeTimers();
  Object.assign(globalThis, { WebSocket: FakeSocket });
  FakeSocket.all = [];
  calls.length = 0;
  answers = { clusters: () => [] };
  hideTab(false);
  login = jest.fn<Promise<boolean>, Parameters<Login>>(() => Promise.resolve(true));
  model = new SlurmModel(settings, login);
});

afterEach(() => {
  model.dispose();
  jest.useRealTimers();
});

test('a full snapshot replaces all jobs, and a diff replaces only changed jobs', () => {
  model.watchJobs();
  const socket = FakeSocket.last.open();
  const first = changes({ whole: true, jobs: [job('one', 'RUNNING'), job('two', 'PENDING')] });
  socket.say({ watch: 1, value: first });
  expect([...model.jobs.keys()]).toEqual(['one', 'two']);
  socket.say({ watch: 1, value: changes({ jobs: [job('two', 'RUNNING')], gone: ['one'] }) });
  expect([...model.jobs.values()].map(one => [one.id, one.state])).toEqual([['two', 'RUNNING']]);
});

test('after an agent restart unknown jobs are dropped and changed states reported', () => {
  const told: [string, string, string][] = [];
  model.stateChanged.connect((_, { job: now, before }) => told.push([now.id, before, now.state]));
  model.watchJobs();
  const socket = FakeSocket.last.open();
  const before = [job('one', 'RUNNING'), job('two', 'RUNNING')];
  socket.say({ watch: 1, value: changes({ whole: true, jobs: before }) });
  expect(told).toEqual([]);
  socket.say({ watch: 1, problem: { code: 'agent', message: 'gone' } });
  expect(model.freshness.problem?.message).toBe('gone');
  expect(model.jobs.size).toBe(2);
  const after = [job('two', 'COMPLETED'), job('three', 'PENDING')];
  socket.say({ watch: 1, value: changes({ whole: true, cursor: 'anew', jobs: after }) });
  expect([...model.jobs.keys()].sort()).toEqual(['three', 'two']);
  expect(told).toEqual([['two', 'RUNNING', 'COMPLETED']]);
  expect(model.freshness.problem).toBeNull();
});

test('all subscribers share one watch, which ends with the last of them', () => {
  const [one, other] = [model.watchJobs(), model.watchJobs()];
  const socket = FakeSocket.last.open();
  expect(socket.sent.filter(sent => sent.call === 'changes')).toHaveLength(1);
  one.dispose();
  one.dispose();
  expect(socket.readyState).toBe(FakeSocket.OPEN);
  other.dispose();
  expect(socket.readyState).not.toBe(FakeSocket.OPEN);
});

test("views of queues share the jobs' watch", () => {
  model.watchJobs();
  const socket = FakeSocket.last.open();
  const [one, other] = [model.look('b'), model.look('a')];
  const args = (): unknown[] => watched(socket).map(sent => sent.args);
  expect(args()).toEqual([{ look: ['a', 'b'] }]);
  one.dispose();
  one.dispose();
  expect(args()).toEqual([{ look: ['a'] }]);
  other.dispose();
  expect(args()).toEqual([{ look: [] }]);
});

test('each job is one row, with or without a record', () => {
  model.look('a');
  const socket = FakeSocket.last.open();
  const say = (more: Partial<Changes>): void =>
    socket.say({ watch: 1, value: changes({ queues: [status()], ...more }) });
  say({ whole: true, jobs: [job('one', 'RUNNING')], listed: [other('2'), other('3')] });
  const ids = (): unknown[] => model.rows.map(row => row.id ?? row.slurm_id);
  expect(ids()).toEqual(['one', '2', '3']);
  const before = model.rows;
  say({});
  expect(model.rows).toBe(before);
  say({ jobs: [job('two', 'RUNNING', { slurm_id: '2' })], gone: ['a 2'] });
  expect(ids()).toEqual(['one', 'two', '3']);
  say({ listed: [other('4')], listed_whole: ['a'] });
  expect(ids()).toEqual(['one', 'two', '4']);
});

test('a reopened queue resumes from its cursor', () => {
  model.watchJobs();
  const look = model.look('a');
  const socket = FakeSocket.last.open();
  const first = watched(socket)[0]?.watch;
  const value = changes({ cursor: 'c7', whole: true, listed: [other('1')], queues: [status()] });
  socket.say({ watch: first, value });
  look.dispose();
  expect([model.rows.length, model.queues.size]).toEqual([1, 0]);
  model.look('a');
  expect(watched(socket).map(({ args, cursor }) => [args, cursor])).toEqual([
    [{ look: ['a'] }, 'c7']
  ]);
});

test('two views of all users share one watch until both are closed', () => {
  model.watchJobs();
  const [one, two] = [model.queue('a', true), model.queue('a', true)];
  const heard: string[] = [];
  one.changed.connect(() => heard.push('one'));
  two.changed.connect(() => heard.push('two'));
  const socket = FakeSocket.last.open();
  const [, everyone] = watched(socket);
  expect(everyone?.args).toEqual({ look: ['a'], everyone: true });
  const number = everyone?.watch;
  const rows = { whole: true, listed: [other('1'), other('2')], queues: [status()] };
  socket.say({ watch: number, value: changes(rows) });
  expect(one.rows).toBe(two.rows);
  one.dispose();
  one.dispose();
  socket.say({ watch: number, value: changes({ listed: [other('3')], gone: ['a 1'] }) });
  expect(two.rows.map(row => row.slurm_id)).toEqual(['2', '3']);
  expect(heard).toEqual(['one', 'two', 'two']);
  expect(model.rows).toEqual([]);
  two.dispose();
  expect(watched(socket)).toHaveLength(1);
});

test("a user's own queue on a cluster is taken from their jobs", () => {
  const view = model.queue('a', false);
  const socket = FakeSocket.last.open();
  const jobs = [job('one', 'RUNNING'), job('two', 'COMPLETED')];
  const listed = [other('3'), other('4', 'b')];
  socket.say({ watch: 1, value: changes({ whole: true, jobs, listed, queues: [status()] }) });
  expect(view.rows.map(row => row.id ?? row.slurm_id)).toEqual(['one', '3']);
  expect(view.freshness).toEqual({ asOf: 100, problem: null, intervalS: 10 });
  view.dispose();
  expect(socket.readyState).not.toBe(FakeSocket.OPEN);
});

test("a visible job's queue is watched until the job ends", () => {
  const [one, two] = [model.watchJob('one'), model.watchJob('one')];
  const socket = FakeSocket.last.open();
  const looks = (): unknown => watched(socket).at(-1)?.args;
  const news = (...jobs: Job[]): void => {
    const value = changes({ jobs, connections: [connection('a')] });
    socket.say({ watch: watched(socket).at(-1)?.watch, value });
  };
  news(job('one', 'SUBMITTING', { slurm_id: null }), job('two', 'RUNNING'));
  expect(looks()).toEqual({ look: [] });
  news(job('one', 'PENDING'));
  expect(looks()).toEqual({ look: ['a'] });
  one.dispose();
  expect(looks()).toEqual({ look: ['a'] });
  news(job('one', 'COMPLETED'));
  expect(looks()).toEqual({ look: [] });
  two.dispose();
  expect(socket.readyState).not.toBe(FakeSocket.OPEN);
});

test('a hidden tab with notifications does not watch queues', () => {
  model.watchJobs({ background: true });
  model.look('a');
  const socket = FakeSocket.last.open();
  hideTab(true);
  expect(watched(socket).map(sent => sent.args)).toEqual([{ look: [] }]);
  hideTab(false);
  expect(watched(socket).map(sent => sent.args)).toEqual([{ look: ['a'] }]);
});

test('a queue reports its age and the reason why it is old', () => {
  model.look('a');
  const socket = FakeSocket.last.open();
  socket.say({ watch: 1, value: changes({ whole: true, queues: [status({ asked_s: 77 })] }) });
  expect(model.queues.get('a')).toEqual({ asOf: 77, problem: null, intervalS: 10 });
  const problem = {
    code: 'x',
    message: 'no answer',
    hint: null,
    detail: null,
    option: null,
    transient: true
  };
  socket.say({ watch: 1, value: changes({ queues: [status({ asked_s: 77, problem })] }) });
  expect(model.queues.get('a')).toEqual({ asOf: 77, problem, intervalS: 10 });
});

test('late samples of other nodes are kept, and repeated samples are dropped', () => {
  const view = model.usage('one');
  const socket = FakeSocket.last.open();
  const sample = (node: string, time_s: number): object => ({ node, time_s });
  const value = { cursor: 'u', problem: null };
  socket.say({ watch: 1, value: { ...value, samples: [sample('a', 1), sample('a', 9)] } });
  socket.say({ watch: 1, value: { ...value, samples: [sample('b', 2), sample('b', 8)] } });
  socket.say({ watch: 1, value: { ...value, samples: [sample('b', 8), sample('a', 10)] } });
  expect(view.samples.map(one => `${one.node}${one.time_s}`)).toEqual([
    'a1',
    'a9',
    'b2',
    'b8',
    'a10'
  ]);
});

test('a hidden tab keeps its state and resumes from its cursor', () => {
  model.look('a');
  const first = FakeSocket.last.open();
  const value = changes({ cursor: 'c7', whole: true, jobs: [job('one', 'RUNNING')] });
  first.say({ watch: 1, value });
  hideTab(true);
  expect(first.readyState).not.toBe(FakeSocket.OPEN);
  expect([model.rows.length, model.freshness.problem]).toEqual([1, null]);
  hideTab(false);
  const second = FakeSocket.last.open();
  expect(second.sent.map(sent => [sent.call, sent.cursor])).toEqual([['changes', 'c7']]);
});

test('clusters are requested at the first change and when a cluster is new', async () => {
  const named = (name: string): Cluster => ({ name, default: true }) as Cluster;
  answers.clusters = () => [named('a')];
  model.watchJobs();
  const socket = FakeSocket.last.open();
  socket.say({ watch: 1, value: changes({ whole: true, connections: [connection('a')] }) });
  await settled();
  expect(model.clusters.map(one => one.name)).toEqual(['a']);
  socket.say({ watch: 1, value: changes({ connections: [connection('a')] }) });
  await settled();
  expect(calls).toEqual(['clusters']);
  answers.clusters = () => [named('a'), named('b')];
  const both = [connection('a'), connection('b')];
  socket.say({ watch: 1, value: changes({ connections: both }) });
  await settled();
  expect(model.clusters.map(one => one.name)).toEqual(['a', 'b']);
});

const NEEDED: Problem = {
  code: 'login-needed',
  message: 'log in',
  hint: null,
  detail: null,
  option: null,
  transient: false
};

test('calls that need a login are retried after a single login', async () => {
  let logged = false;
  let done: (ok: boolean) => void = () => undefined;
  answers.cancel = () => (logged ? 'cancelled' : refuse(NEEDED));
  login.mockImplementation(
    () =>
      new Promise(resolve => {
        done = resolve;
      })
  );
  const both = Promise.all([model.callLoggedIn('a', 'cancel'), model.callLoggedIn('a', 'cancel')]);
  await settled();
  expect(login).toHaveBeenCalledTimes(1);
  logged = true;
  done(true);
  expect(await both).toEqual(['cancelled', 'cancelled']);
});

test('a cluster is reported missing only after the agent has answered', async () => {
  const cluster = { name: 'local' } as Cluster;
  model.watchJobs();
  const socket = FakeSocket.last.open();
  expect([model.hasNoCluster, model.isRemoved('local')]).toEqual([false, false]);
  socket.say({ watch: 1, value: changes({ whole: true }) });
  await jest.advanceTimersByTimeAsync(16);
  expect([model.hasNoCluster, model.isRemoved('local')]).toEqual([true, true]);
  answers = { clusters: () => [cluster] };
  socket.say({ watch: 1, value: changes({ whole: true }) });
  await jest.advanceTimersByTimeAsync(16);
  expect([model.hasNoCluster, model.isRemoved('local')]).toEqual([false, false]);
});
