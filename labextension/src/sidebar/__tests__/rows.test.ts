import { nullTranslator } from '@jupyterlab/translation';
import type { Job, QueueEntry } from '../../wire';
import { actionsOf } from '../menu';
import { grouped, GROUPS, keysNow, matching, targetOf, type Groups, type JobRow } from '../rows';
import { facts, time, used } from '../words';

const trans = nullTranslator.load('jupyter_slurm');
/** Noon of a day, local time. */
const NOW_S = new Date(2026, 10, 21, 12).getTime() / 1000;

function job(id: string, more: Partial<Job> = {}): Job {
  return {
    id,
    name: id,
    cluster: 'a',
    slurm_id: null,
    state: 'RUNNING',
    kind: 'script',
    reason: null,
    why: null,
    problem: null,
    problem_since_s: null,
    created_s: NOW_S - 100,
    submitted_s: NOW_S - 90,
    started_s: null,
    ended_s: null,
    limit_s: null,
    start_estimate_s: null,
    nodes: [],
    gpus: 0,
    session: null,
    tasks: {},
    ...more
  } as Job;
}

function entry(slurm_id: string, more: Partial<QueueEntry> = {}): QueueEntry {
  const common = { name: `job ${slurm_id}`, user: 'me', partition: 'p', state: 'RUNNING' };
  return { slurm_id, ...common, submitted_s: NOW_S - 50, ...more };
}

function lists(jobs: Job[], entries: QueueEntry[] = [], past: QueueEntry[] = []): Groups {
  return grouped(jobs, new Map([['a', entries]]), new Map([['a', past]]), NOW_S);
}

function names(groups: Groups): string[][] {
  return GROUPS.map(group => groups[group].map(row => row.name));
}

function only(jobs: Job[], entries: QueueEntry[] = []): JobRow {
  const all = Object.values(lists(jobs, entries)).flat();
  const [row] = all;
  if (row === undefined || all.length !== 1) {
    throw new Error(`${all.length} rows`);
  }
  return row;
}

test('jobs are grouped by where they are in their life, the newest first', () => {
  const ended = { state: 'COMPLETED' as const };
  const groups = lists([
    job('old run', { created_s: 1 }),
    job('new run'),
    job('waits', { state: 'PENDING' }),
    job('today', { ...ended, ended_s: NOW_S - 3600 }),
    job('yesterday', { ...ended, ended_s: NOW_S - 86_400 })
  ]);
  expect(names(groups)).toEqual([['new run', 'old run'], ['waits'], ['today'], ['yesterday']]);
});

test('of two that came in the same second the later one is first', () => {
  const groups = lists([], [entry('9'), entry('10')]);
  expect(names(groups)[0]).toEqual(['job 10', 'job 9']);
});

test('a job that is ours and in the queue is one row, one that is only there another', () => {
  const groups = lists(
    [job('ours', { slurm_id: '5' })],
    [entry('5', { id: 'ours' }), entry('6', { name: 'foreign' })]
  );
  expect(names(groups)[0]?.sort()).toEqual(['foreign', 'ours']);
});

test('a row keeps its key when Slurm gives the job its id', () => {
  const before = only([job('one', { state: 'SUBMITTING' })]);
  expect(only([job('one', { slurm_id: '9' })]).key).toBe(before.key);
});

test('a job that has the Slurm id of one that has ended is a row of its own', () => {
  const ended = job('abcdefgh', { slurm_id: '7', state: 'LOST', ended_s: NOW_S });
  const groups = lists([ended], [entry('7')]);
  expect(names(groups)).toEqual([['job 7'], [], ['abcdefgh'], []]);
  expect(keysNow(Object.values(groups).flat()).size).toBe(0);
  const again = job('bcdefghi', { slurm_id: '7' });
  for (const jobs of [
    [ended, again],
    [again, ended]
  ]) {
    const both = lists(jobs, [entry('7', { id: 'bcdefghi' })]);
    expect(names(both)).toEqual([['bcdefghi'], [], ['abcdefgh'], []]);
  }
});

test('a row that becomes ours is found by the key that it had', () => {
  const listed = only([], [entry('9')]);
  const ours = only([job('one', { slurm_id: '9' })], [entry('9')]);
  expect(keysNow([ours]).get(listed.key)).toBe(ours.key);
});

test('an array that is not ours is one row: running, when one of its tasks is', () => {
  const row = only(
    [],
    [
      entry('12_[3-9%2]', { array_id: '12', state: 'PENDING' }),
      entry('12_1', { array_id: '12', gpus: 2, started_s: NOW_S - 60, limit_s: 600 }),
      entry('12_2', { array_id: '12', gpus: 2 })
    ]
  );
  expect([row.slurmId, row.state, row.gpus, row.tasks.length]).toEqual(['12', 'RUNNING', 4, 3]);
  expect(facts(row, NOW_S, trans)).toContain('2 of 9 tasks run');
  expect(row.tasks.map(task => targetOf(task).slurm_id)).toEqual(['12_[3-9%2]', '12_1', '12_2']);
});

test('of accounting only what is neither ours nor in the queue is told', () => {
  const over = { state: 'COMPLETED', ended_s: NOW_S - 60 };
  const past = [entry('5', over), entry('6', { ...over, id: 'x' }), entry('7', over), entry('8')];
  const groups = lists([job('ours', { slurm_id: '5' })], [entry('8')], past);
  expect(names(groups)).toEqual([['ours', 'job 8'].sort(), [], ['job 7'], []]);
});

test('a row says how much of its time is gone', () => {
  const row = only([job('one', { started_s: NOW_S - 720, limit_s: 7200 })]);
  expect(time(row, NOW_S, trans)).toBe('12 min of 2 h');
  expect(used(row, NOW_S)).toBeCloseTo(0.1);
  expect(used(only([job('one', { started_s: 1, limit_s: 60 })]), NOW_S)).toBe(1);
  expect(used(only([job('one')]), NOW_S)).toBeNull();
});

test('a row says why it waits and when it may start', () => {
  const row = only([
    job('one', {
      state: 'PENDING',
      why: 'Waits for free GPUs',
      gpus: 2,
      start_estimate_s: NOW_S + 600
    })
  ]);
  const [gpus, why, start] = facts(row, NOW_S, trans);
  expect([gpus, why]).toEqual(['2 GPUs', 'Waits for free GPUs']);
  expect(start).toMatch(/^may start in 10 min, at .*10/);
  expect(time(row, NOW_S, trans)).toBe('1 min 30 s');
});

test('what is not known is said, with since when', () => {
  const problem = {
    code: 'x',
    message: 'No answer',
    hint: null,
    detail: null,
    option: null,
    transient: true
  };
  const row = only([job('one', { problem, problem_since_s: NOW_S - 60 })]);
  expect(facts(row, NOW_S, trans).at(-1)).toMatch(/^Not known since .*: No answer$/);
});

test('what can be done depends on the state', () => {
  const actions = (more: Partial<Job>): string[] =>
    actionsOf(only([job('one', more)])).map(id => id.split(':')[1] ?? '');
  expect(actions({ state: 'RUNNING' })).toEqual(['copy-id', 'cancel']);
  expect(actions({ state: 'PENDING' })).toEqual(['copy-id', 'hold', 'cancel']);
  const held = { state: 'PENDING' as const, reason: 'JobHeldUser' };
  expect(actions(held)).toEqual(['copy-id', 'release', 'cancel']);
  expect(actions({ state: 'COMPLETED' })).toEqual(['copy-id', 'forget']);
});

test('a filter wants every word somewhere', () => {
  const rows = lists([job('train', { nodes: ['n1'] }), job('test')]).running;
  expect(matching(rows, 'TRA n1', trans).map(row => row.name)).toEqual(['train']);
  expect(matching(rows, 'tra n2', trans)).toEqual([]);
  expect(matching(rows, ' ', trans)).toHaveLength(2);
});
