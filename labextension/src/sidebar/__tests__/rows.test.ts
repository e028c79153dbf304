import { listed } from '../../__tests__/fakes';
import type { Job, ListedJob, Row } from '../../wire';
import { actionsOf } from '../menu';
import {
  dayOf,
  firstOpen,
  linesOf,
  listingOf,
  matching,
  targetOf,
  type Line,
  type Listing
} from '../rows';
import { facts, reasons, table } from '../hover_words';
import { matters, sentence, taskOf, used } from '../words';
/** Noon of a day, in local time. */
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

function other(slurm_id: string, more: Partial<ListedJob> = {}): ListedJob {
  return listed(slurm_id, { cluster: 'a', submitted_s: NOW_S - 50, ...more });
}

const TODAY = dayOf(NOW_S);
const YESTERDAY = dayOf(NOW_S - 86_400);

function names({ groups }: Listing): string[][] {
  return ['running', 'waiting', TODAY, YESTERDAY].map(group =>
    (groups.get(group) ?? []).map(row => row.name)
  );
}

/** The lines, with open arrays. */
function lines(rows: Row[]): Line[] {
  const { groups, tasks } = listingOf(rows);
  return linesOf(groups, tasks, () => true);
}

test('jobs are grouped by stage, the newest first', () => {
  const ended = { state: 'COMPLETED' as const };
  const rows = listingOf([
    job('old run', { created_s: 1 }),
    job('new run'),
    job('waits', { state: 'PENDING' }),
    job('today', { ...ended, ended_s: NOW_S - 3600 }),
    job('yesterday', { ...ended, ended_s: NOW_S - 86_400 })
  ]);
  expect(names(rows)).toEqual([['new run', 'old run'], ['waits'], ['today'], ['yesterday']]);
});

test('waiting jobs are listed by expected start, held jobs last', () => {
  const waits = { state: 'PENDING' };
  const rows = listingOf([
    other('1', { ...waits, reason: 'JobHeldUser' }),
    other('2', { ...waits, priority: 5 }),
    job('ours', { state: 'PENDING', slurm_id: '3', priority: 9 }),
    other('4', { ...waits, priority: 1, start_estimate_s: NOW_S + 60 }),
    other('5', { ...waits, priority: 9 })
  ]);
  expect(names(rows)[1]).toEqual(['job 4', 'ours', 'job 5', 'job 2', 'job 1']);
});

test('a selected row stays selected when its job gets a record', () => {
  const ended = job('abcdefgh', { slurm_id: '7', state: 'LOST', ended_s: NOW_S });
  const again = job('bcdefghi', { slurm_id: '7' });
  expect(listingOf([ended, other('7')]).keyNow('a 7')).toBe('a 7');
  expect(listingOf([again, ended]).keyNow('a 7')).toBe('bcdefghi');
  expect(listingOf([]).keyNow('a 7')).toBe('a 7');
});

test('an array expands to its tasks, with waiting tasks last', () => {
  const array = 'a 12';
  const rows = [
    other('12', { gpus: 4, tasks: { COMPLETED: '0', PENDING: '3-9', RUNNING: '1-2' } }),
    other('12_[3-9%2]', { array, state: 'PENDING' }),
    other('12_1', { array, gpus: 2, started_s: NOW_S - 60, limit_s: 600 }),
    other('12_2', { array, gpus: 2 })
  ];
  const found = lines(rows).flatMap(line => (line.kind === 'job' ? [line.row] : []));
  const [whole, ...tasks] = found;
  expect(whole && table(whole, undefined)[0]).toEqual([
    'Tasks',
    '1 of 10 tasks done, 7 waiting, 2 running'
  ]);
  expect(whole && matters(whole, NOW_S)).toBe('1/10');
  const ids = ['12_1', '12_2', '12_[3-9%2]', '12_0'];
  expect(tasks.map(task => targetOf(task).slurm_id)).toEqual(ids);
  expect(found.map(taskOf)).toEqual(['', '[1]', '[2]', '[3-9%2]', '[0]']);
  const [first] = tasks;
  expect(first && sentence(first, NOW_S)).toMatch(/^job 12_1 \[1\],/);
});

test('a running job shows its elapsed time, and a lab shows its remaining time', () => {
  const [ran, limit_s] = [{ started_s: NOW_S - 95 }, 3600];
  expect(matters(job('one', { ...ran, limit_s }), NOW_S)).toBe('1:35 / 1 h');
  expect(matters(job('one', ran), NOW_S)).toBe('1:35');
  const long = { started_s: NOW_S - 93_784, limit_s: 172_800 };
  expect(matters(other('1', long), NOW_S)).toBe('1-02:03:04 / 2 d');
  expect(matters(job('one', { ...ran, limit_s, kind: 'session' }), NOW_S)).toBe('58 min left');
  expect(used(job('one', { ...ran, limit_s: 950 }), NOW_S)).toBeCloseTo(0.1);
  expect(used(job('one', { started_s: 1, limit_s: 60 }), NOW_S)).toBe(1);
  expect(used(job('one'), NOW_S)).toBeNull();
});

test('an ended array shows its number of tasks, and expands to failed tasks', () => {
  const ran = { slurm_id: '7', started_s: NOW_S - 3600, ended_s: NOW_S - 2880 };
  const failed = { ...ran, state: 'FAILED' as const, tasks: { COMPLETED: '0,1,3', FAILED: '2' } };
  const row = job('one', failed);
  expect(matters(row, NOW_S)).toBe('1 failed · 12 min');
  const done = { ...ran, state: 'COMPLETED' as const, tasks: { COMPLETED: '0-3' } };
  expect(matters(job('one', done), NOW_S)).toBe('4 tasks · 12 min');
  const opened = lines([row]);
  const told = opened.flatMap(line =>
    line.kind === 'job' ? [[line.level, line.row.slurm_id, line.row.state]] : []
  );
  expect(told).toEqual([
    [2, '7', 'FAILED'],
    [3, '7_0', 'COMPLETED'],
    [3, '7_1', 'COMPLETED'],
    [3, '7_2', 'FAILED'],
    [3, '7_3', 'COMPLETED']
  ]);
  expect(new Set(opened.map(({ key }) => key)).size).toBe(opened.length);
});

test('a waiting row shows a short reason and its approximate start', () => {
  const waits = { state: 'PENDING' as const, start_estimate_s: NOW_S + 600 };
  const row = job('one', { ...waits, reason: 'Priority', why: 'A sentence', gpus: 2 });
  expect(matters(row, NOW_S)).toMatch(/^priority · ~.*10/);
  expect(sentence(row, NOW_S)).toMatch(/^one, waiting, priority, ~.*10/);
  const later = job('one', { ...waits, reason: 'BeginTime' });
  expect(matters(later, NOW_S)).toMatch(/^~.*10/);
  expect(facts(row, NOW_S)[0]).toMatch(/^starts ~.*10/);
  expect(reasons(row, NOW_S)).toEqual(['A sentence']);
  const [gpus, ...times] = table(row, undefined);
  expect(gpus).toEqual(['GPUs', '2']);
  // and does not repeat the expected start
  expect(times.map(([label]) => label)).toEqual(['Submitted']);
  const word = (reason: string): string => matters(job('one', { state: 'PENDING', reason }), NOW_S);
  expect(['JobHeldUser', 'Resources', 'QOSMaxJobsPerUserLimit', 'NewOfSlurm'].map(word)).toEqual([
    'on hold',
    'next',
    'limit reached',
    'waiting'
  ]);
});

test("a notebook's jobs of one day share a line that expands", () => {
  const over = { state: 'COMPLETED' as const, notebook: '/home/ana/fit.ipynb' };
  const jobs = [1, 2, 3].map(at => job(`cell ${at}`, { ...over, ended_s: NOW_S - at }));
  jobs.push(job('alone', { state: 'FAILED', ended_s: NOW_S - 2.5 }));
  const { groups, tasks } = listingOf(jobs);
  const told = (...open: string[]): string[] =>
    linesOf(groups, tasks, key => open.includes(key)).map(one =>
      one.kind === 'job' ? `${one.level} ${one.row.name}` : one.kind
    );
  expect(told()).toEqual(['group']);
  expect(told(TODAY)).toEqual(['group', 'notebook', '2 alone']);
  const opened = told(TODAY, `${TODAY}\n/home/ana/fit.ipynb`);
  expect(opened).toEqual(['group', 'notebook', '3 cell 1', '3 cell 2', '3 cell 3', '2 alone']);
  expect(firstOpen(NOW_S)).toEqual(['running', 'waiting', TODAY]);
});

test('a refused job is shown as refused, with its reason once', () => {
  const problem = {
    code: 'x',
    message: 'No such account',
    hint: null,
    detail: null,
    option: null,
    transient: false
  };
  const row = job('one', { state: 'REJECTED', why: 'No such account', problem });
  expect(matters(row, NOW_S)).toBe('refused');
  expect(reasons(row, NOW_S)).toEqual(['No such account']);
});

test('the offered actions depend on the state', () => {
  const actions = (more: Partial<Job>): string[] =>
    actionsOf(job('one', more)).map(id => id.split(':')[1] ?? '');
  expect(actions({ state: 'RUNNING' })).toEqual(['copy-id', 'cancel']);
  expect(actions({ state: 'PENDING' })).toEqual(['copy-id', 'hold', 'cancel']);
  const held = { state: 'PENDING' as const, reason: 'JobHeldUser' };
  expect(actions(held)).toEqual(['copy-id', 'release', 'cancel']);
  expect(actions({ state: 'COMPLETED' })).toEqual(['copy-id', 'forget']);
});

test('a filter matches rows that contain every word', () => {
  const rows = [job('train', { nodes: ['n1'] }), job('test')];
  expect(matching(rows, 'TRA n1').map(row => row.name)).toEqual(['train']);
  expect(matching(rows, 'tra n2')).toEqual([]);
  expect(matching(rows, ' ')).toHaveLength(2);
});
