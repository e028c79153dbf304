import type { Login } from '../model';
import { SlurmModel } from '../model';
import { SlurmError } from '../../server';
import type { Changes, Cluster, Connection, Job, Problem, QueueChanges } from '../../wire';
import { FakeSocket, hideTab, settings } from './fakes';

jest.mock('../../server', () => ({
  ...jest.requireActual<typeof import('../../server')>('../../server'),
  request: (_: unknown, name: string): Promise<unknown> => asked(name)
}));

const calls: string[] = [];
/** What the server answers to a call, or throws. */
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
    gone: [],
    connections: null,
    ...more
  };
}

function queue(more: Partial<QueueChanges>): QueueChanges {
  const none = { cluster: 'a', cursor: 'q', whole: false, entries: [], gone: [], ended: [] };
  return { ...none, asked_s: 100, problem: null, interval_s: 10, ...more };
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

function entry(slurm_id: string, state = 'RUNNING'): QueueChanges['entries'][number] {
  return { slurm_id, state, name: 'n', user: 'me', partition: 'p' };
}

/** All that was begun is done, and a frame has passed. */
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

test('a whole snapshot replaces all jobs, a diff only those that changed', () => {
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

test('two views of a queue share one watch until both are closed', () => {
  model.watchJobs();
  const [one, other] = [model.queue('a', false), model.queue('a', false)];
  const everyone = model.queue('a', true);
  const heard: string[] = [];
  one.changed.connect(() => heard.push('one'));
  other.changed.connect(() => heard.push('other'));
  const socket = FakeSocket.last.open();
  const queues = socket.sent.filter(sent => sent.call === 'queue_changes');
  expect(queues.map(sent => sent.args)).toEqual([
    { cluster: 'a', everyone: false },
    { cluster: 'a', everyone: true }
  ]);
  const number = queues[0]?.watch;
  socket.say({ watch: number, value: queue({ whole: true, entries: [entry('1'), entry('2')] }) });
  expect(one.entries).toBe(other.entries);
  one.dispose();
  one.dispose();
  socket.say({ watch: number, value: queue({ entries: [entry('3')], gone: ['1'] }) });
  expect([...other.entries.keys()]).toEqual(['2', '3']);
  expect(heard).toEqual(['one', 'other', 'other']);
  expect(socket.sent.some(sent => sent.unwatch === number)).toBe(false);
  other.dispose();
  expect(socket.sent.some(sent => sent.unwatch === number)).toBe(true);
  expect(everyone.everyone).toBe(true);
});

test('a reopened queue resumes from its cursor, after an hour from the start', () => {
  model.watchJobs();
  const socket = FakeSocket.last.open();
  const asked = (): unknown =>
    socket.sent.filter(sent => sent.call === 'queue_changes').map(sent => sent.cursor);
  const first = model.queue('a', false);
  const value = queue({ cursor: 'q7', whole: true, entries: [entry('1'), entry('2')] });
  socket.say({ watch: 2, value });
  first.dispose();
  expect(socket.sent).toContainEqual({ unwatch: 2 });
  const second = model.queue('a', false);
  expect([second.entries.size, second.freshness.asOf]).toEqual([2, 100]);
  expect(asked()).toEqual(['', 'q7']);
  socket.say({ watch: 3, value: queue({ cursor: 'q8', gone: ['1'] }) });
  expect([...second.entries.keys()]).toEqual(['2']);
  second.dispose();
  jest.advanceTimersByTime(3_600_000);
  expect(model.queue('a', false).entries.size).toBe(0);
});

test('a visible job has its queue watched until the job ends', () => {
  const [one, other] = [model.watchJob('one'), model.watchJob('one')];
  const socket = FakeSocket.last.open();
  const queues = (): unknown[] => {
    const numbers = socket.sent
      .filter(sent => sent.call === 'queue_changes')
      .map(sent => sent.watch);
    const left = socket.sent.map(sent => sent.unwatch);
    return numbers.filter(number => !left.includes(number));
  };
  const news = (...jobs: Job[]): void =>
    socket.say({ watch: 1, value: changes({ jobs, connections: [connection('a')] }) });
  news(job('one', 'SUBMITTING', { slurm_id: null }), job('two', 'RUNNING'));
  expect(queues()).toEqual([]);
  news(job('one', 'PENDING'));
  expect(queues()).toHaveLength(1);
  one.dispose();
  expect(queues()).toHaveLength(1);
  news(job('one', 'COMPLETED'));
  expect(queues()).toEqual([]);
  news(job('one', 'PENDING', { restarts: 1 }));
  expect(queues()).toHaveLength(1);
  socket.say({
    watch: 1,
    value: changes({ connections: [{ ...connection('a'), state: 'login-needed' }] })
  });
  expect(queues()).toEqual([]);
  other.dispose();
  expect(socket.readyState).not.toBe(FakeSocket.OPEN);
});

test('a queue reports its age and why nothing newer is known', () => {
  const view = model.queue('a', false);
  const socket = FakeSocket.last.open();
  socket.say({ watch: 1, value: queue({ whole: true, entries: [entry('1')], asked_s: 77 }) });
  expect(view.freshness).toEqual({ asOf: 77, problem: null, intervalS: 10 });
  const problem = {
    code: 'x',
    message: 'no answer',
    hint: null,
    detail: null,
    option: null,
    transient: true
  };
  socket.say({ watch: 1, value: queue({ asked_s: 77, problem }) });
  expect(view.freshness).toEqual({ asOf: 77, problem, intervalS: 10 });
  expect(view.entries.size).toBe(1);
});

test('late samples of another node are kept, repeated ones dropped', () => {
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

test('a hidden tab keeps its state and resumes from its cursors', () => {
  model.watchJobs();
  const view = model.queue('a', false);
  const first = FakeSocket.last.open();
  first.say({
    watch: 1,
    value: changes({ cursor: 'c7', whole: true, jobs: [job('one', 'RUNNING')] })
  });
  first.say({ watch: 2, value: queue({ cursor: 'q7', whole: true, entries: [entry('1')] }) });
  hideTab(true);
  expect(first.readyState).not.toBe(FakeSocket.OPEN);
  expect([model.jobs.size, view.entries.size, model.freshness.problem]).toEqual([1, 1, null]);
  hideTab(false);
  const second = FakeSocket.last.open();
  expect(second.sent.map(sent => [sent.call, sent.cursor])).toEqual([
    ['changes', 'c7'],
    ['queue_changes', 'q7']
  ]);
  second.say({ watch: 2, value: queue({ gone: ['1'] }) });
  expect(view.entries.size).toBe(0);
});

test('clusters are requested with the first news and again when others appear', async () => {
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

test('no cluster is reported missing before the agent says so', async () => {
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
