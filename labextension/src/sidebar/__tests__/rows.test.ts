import type { Job, QueueEntry } from '../../wire';
import { JobIndex } from '../job_index';
import { actionsOf } from '../menu';
import { dayOf, matching, targetOf, type JobRow } from '../rows';
import { firstOpen, linesOf } from '../tree';
import { facts, reasons, table } from '../hover_words';
import { matters, sentence, taskOf, used } from '../words';
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
    notebook: null,
    session: null,
    tasks: {},
    ...more
  } as Job;
}

function entry(slurm_id: string, more: Partial<QueueEntry> = {}): QueueEntry {
  const common = { name: `job ${slurm_id}`, user: 'me', partition: 'p', state: 'RUNNING' };
  return { slurm_id, ...common, submitted_s: NOW_S - 50, ...more };
}

type Groups = ReadonlyMap<string, readonly JobRow[]>;

function told(index: JobIndex, jobs: Job[], entries: QueueEntry[], past: QueueEntry[]): Groups {
  return index.update(jobs, new Map([['a', entries]]), new Map([['a', past]])).groups;
}

function lists(jobs: Job[], entries: QueueEntry[] = [], past: QueueEntry[] = []): Groups {
  return told(new JobIndex(), jobs, entries, past);
}

const TODAY = dayOf(NOW_S);
const YESTERDAY = dayOf(NOW_S - 86_400);

function names(groups: Groups): string[][] {
  return ['running', 'waiting', TODAY, YESTERDAY].map(group =>
    (groups.get(group) ?? []).map(row => row.name)
  );
}

function only(jobs: Job[], entries: QueueEntry[] = []): JobRow {
  const all = [...lists(jobs, entries).values()].flat();
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

test('those that wait are listed as they will start, those on hold last', () => {
  const waits = { state: 'PENDING' };
  const groups = lists(
    [],
    [
      entry('1', { ...waits, reason: 'JobHeldUser' }),
      entry('2', { ...waits, priority: 5 }),
      entry('3', { ...waits, priority: 9 }),
      entry('4', { ...waits, priority: 1, start_estimate_s: NOW_S + 60 }),
      entry('5', { ...waits, priority: 9 })
    ]
  );
  const order = ['job 4', 'job 3', 'job 5', 'job 2', 'job 1'];
  expect(names(groups)[1]).toEqual(order);
});

test('a tracked job in the queue is one row, a foreign job another', () => {
  const groups = lists(
    [job('ours', { slurm_id: '5' })],
    [entry('5', { id: 'ours' }), entry('6', { name: 'foreign' })]
  );
  expect(names(groups)[0]?.sort()).toEqual(['foreign', 'ours']);
});

test('a job that has the Slurm id of one that has ended is a row of its own', () => {
  const ended = job('abcdefgh', { slurm_id: '7', state: 'LOST', ended_s: NOW_S });
  const groups = lists([ended], [entry('7')]);
  expect(names(groups)).toEqual([['job 7'], [], ['abcdefgh'], []]);
  const again = job('bcdefghi', { slurm_id: '7' });
  for (const jobs of [
    [ended, again],
    [again, ended]
  ]) {
    const both = lists(jobs, [entry('7', { id: 'bcdefghi' })]);
    expect(names(both)).toEqual([['bcdefghi'], [], ['abcdefgh'], []]);
  }
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
  expect(table(row, undefined)[0]).toEqual(['Tasks', '2 running · 7 waiting']);
  expect(row.tasks.map(task => targetOf(task).slurm_id)).toEqual(['12_1', '12_2', '12_[3-9%2]']);
  expect([row, ...row.tasks].map(taskOf)).toEqual(['', '[1]', '[2]', '[3-9%2]']);
  expect(row.tasks.map(task => sentence(task, NOW_S).split(',')[0])).toEqual([
    'job 12_1 [1]',
    'job 12_2 [2]',
    'job 12_[3-9%2] [3-9%2]'
  ]);
});

test('accounting adds only jobs that are neither tracked nor in the queue', () => {
  const over = { state: 'COMPLETED', ended_s: NOW_S - 60 };
  const past = [entry('5', over), entry('6', { ...over, id: 'x' }), entry('7', over), entry('8')];
  const groups = lists([job('ours', { slurm_id: '5' })], [entry('8')], past);
  expect(names(groups)).toEqual([['ours', 'job 8'].sort(), [], ['job 7'], []]);
});

test('a running row says how much of its time is left', () => {
  const row = only([job('one', { started_s: NOW_S - 720, limit_s: 7200 })]);
  expect(matters(row, NOW_S)).toBe('1 h 48 left');
  expect(used(row, NOW_S)).toBeCloseTo(0.1);
  expect(used(only([job('one', { started_s: 1, limit_s: 60 })]), NOW_S)).toBe(1);
  expect(used(only([job('one')]), NOW_S)).toBeNull();
  const open = only([job('one', { started_s: NOW_S - 130 })]);
  expect(matters(open, NOW_S)).toBe('2 min');
});

test('an ended array says how many tasks it had, and opens to those that failed', () => {
  const ran = { slurm_id: '7', started_s: NOW_S - 3600, ended_s: NOW_S - 2880 };
  const failed = { ...ran, state: 'FAILED' as const, tasks: { COMPLETED: '0,1,3', FAILED: '2' } };
  const row = only([job('one', failed)]);
  expect(matters(row, NOW_S)).toBe('1 failed · 12 min');
  const done = { ...ran, state: 'COMPLETED' as const, tasks: { COMPLETED: '0-3' } };
  expect(matters(only([job('one', done)]), NOW_S)).toBe('4 tasks · 12 min');
  const lines = linesOf(lists([job('one', failed)]), () => true);
  const told = lines.flatMap(line =>
    line.kind === 'job' ? [[line.level, line.row.slurmId, line.row.state]] : []
  );
  expect(told).toEqual([
    [2, '7', 'FAILED'],
    [3, '7_0', 'COMPLETED'],
    [3, '7_1', 'COMPLETED'],
    [3, '7_2', 'FAILED'],
    [3, '7_3', 'COMPLETED']
  ]);
  expect(new Set(lines.map(({ key }) => key)).size).toBe(lines.length);
});

test('a waiting row says why in a word, and about when it starts', () => {
  const waits = { state: 'PENDING' as const, start_estimate_s: NOW_S + 600 };
  const row = only([job('one', { ...waits, reason: 'Priority', why: 'A sentence', gpus: 2 })]);
  expect(matters(row, NOW_S)).toMatch(/^priority · ~.*10/);
  expect(sentence(row, NOW_S)).toMatch(/^one, waiting, priority, ~.*10/);
  const later = only([job('one', { ...waits, reason: 'BeginTime' })]);
  expect(matters(later, NOW_S)).toMatch(/^~.*10/);
  expect(facts(row, NOW_S)[0]).toMatch(/^starts ~.*10/);
  expect(reasons(row, NOW_S)).toEqual(['A sentence']);
  const [gpus, ...times] = table(row, undefined);
  expect(gpus).toEqual(['GPUs', '2']);
  expect(times.map(([label]) => label)).toEqual(['Submitted']); // and not the expected start again
  const word = (reason: string): string =>
    matters(only([job('one', { state: 'PENDING', reason })]), NOW_S);
  expect(['JobHeldUser', 'Resources', 'QOSMaxJobsPerUserLimit', 'NewOfSlurm'].map(word)).toEqual([
    'on hold',
    'next',
    'limit reached',
    'waiting'
  ]);
});

test('many jobs that one notebook submitted on a day are one line, which opens', () => {
  const over = { state: 'COMPLETED' as const, notebook: '/home/ana/fit.ipynb' };
  const jobs = [1, 2, 3].map(at => job(`cell ${at}`, { ...over, ended_s: NOW_S - at }));
  jobs.push(job('alone', { state: 'FAILED', ended_s: NOW_S - 2.5 }));
  const groups = lists(jobs);
  const lines = (...open: string[]): string[] =>
    linesOf(groups, key => open.includes(key)).map(one =>
      one.kind === 'job' ? `${one.level} ${one.row.name}` : one.kind
    );
  expect(lines()).toEqual(['group']);
  expect(lines(TODAY)).toEqual(['group', 'notebook', '2 alone']);
  const opened = lines(TODAY, `${TODAY}\n/home/ana/fit.ipynb`);
  expect(opened).toEqual(['group', 'notebook', '3 cell 1', '3 cell 2', '3 cell 3', '2 alone']);
  expect(firstOpen(NOW_S)).toEqual(['running', 'waiting', TODAY]);
});

test('a job that Slurm refused is shown as refused, not as unknown, and its reason once', () => {
  const problem = {
    code: 'x',
    message: 'No such account',
    hint: null,
    detail: null,
    option: null,
    transient: false
  };
  const row = only([job('one', { state: 'REJECTED', why: 'No such account', problem })]);
  expect(matters(row, NOW_S)).toBe('refused');
  expect(reasons(row, NOW_S)).toEqual(['No such account']);
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
  const rows = lists([job('train', { nodes: ['n1'] }), job('test')]).get('running') ?? [];
  expect(matching(rows, 'TRA n1').map(row => row.name)).toEqual(['train']);
  expect(matching(rows, 'tra n2')).toEqual([]);
  expect(matching(rows, ' ')).toHaveLength(2);
});
