import type { Job, QueueEntry } from '../../wire';
import { JobIndex } from '../job_index';
import { actionsOf } from '../menu';
import { lineSentence } from '../row';
import { dayOf, matching, targetOf, type JobRow } from '../rows';
import { firstOpen, linesOf, type Line } from '../tree';
import { facts, reasons, table } from '../hover_words';
import { gpusOf, matters, sentence, taskOf, used } from '../words';
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
  const index = new JobIndex();
  const [listed] = told(index, [], [entry('9')], []).get('running') ?? [];
  const [ours] =
    told(index, [job('one', { slurm_id: '9' })], [entry('9')], []).get('running') ?? [];
  expect(ours?.key).toBe('one');
  const ourJobs = [job('one', { slurm_id: '9' })];
  const { keyNow } = index.update(ourJobs, new Map(), new Map());
  expect(keyNow(listed?.key ?? '')).toBe('one');
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

test('an array that is not ours runs on between two waves of its tasks, unless the rest is held', () => {
  const waits = (reason: string): QueueEntry[] => [
    entry('7_[4-9%3]', { array_id: '7', name: 'sweep', state: 'PENDING', reason })
  ];
  const past = (state: string, ended_s: number): QueueEntry[] => [
    entry('7_1', { array_id: '7', name: 'sweep', state, ended_s })
  ];
  const [row] = lists([], waits('Priority'), past('COMPLETED', NOW_S)).get('running') ?? [];
  expect(row && sentence(row, NOW_S)).toBe('sweep, running, 0 of 6 running');
  for (const groups of [
    lists([], waits('JobHeldUser'), past('COMPLETED', NOW_S)),
    lists([], waits('Priority'), past('CANCELLED', NOW_S)),
    lists([], waits('Priority'), past('COMPLETED', NOW_S - 86_400))
  ]) {
    expect(names(groups).slice(0, 2)).toEqual([[], ['sweep']]);
  }
});

test('an array that is not ours and has ended is what went wrong in it, from first to last', () => {
  const times = [10, 30, 20].map(at => ({ started_s: NOW_S - at, ended_s: NOW_S - at + 5 }));
  const states = ['COMPLETED', 'FAILED', 'CANCELLED'];
  const row = only(
    [],
    states.map((state, at) => entry(`12_${at}`, { array_id: '12', state, ...times[at] }))
  );
  expect(row.state).toBe('FAILED');
  expect([row.startedS, row.endedS]).toEqual([NOW_S - 30, NOW_S - 5]);
});

test('of accounting only what is neither ours nor in the queue is told', () => {
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

test('the card of a running job says when it ends, that of an array does not', () => {
  const runs = { started_s: NOW_S - 720, limit_s: 7200 };
  expect(facts(only([job('one', runs)]), NOW_S)).toEqual(['ends in 1 h 48 min']);
  expect(facts(only([job('one', { ...runs, limit_s: null })]), NOW_S)).toEqual([]);
  const array = only([job('one', { ...runs, slurm_id: '7', tasks: { RUNNING: '0-1' } })]);
  expect(facts(array, NOW_S).join()).not.toContain('ends in');
});

test('a running row says how busy its GPUs are where the queue tells', () => {
  const one = job('one', { slurm_id: '5', started_s: NOW_S - 60, limit_s: 3600, gpus: 4 });
  const listed = entry('5', { id: 'one', gpus: 4 });
  const [busy, idle] = [only([one], [{ ...listed, gpu_load: 0.92 }]), only([one], [listed])];
  expect([gpusOf(busy), gpusOf(idle)]).toEqual(['4 GPU 92 %', '4 GPUs']);
  expect(sentence(busy, NOW_S)).toBe('one, running, 4 GPU 92 %, 59 min left');
});

test('an array says how many of its tasks are done, and how many failed', () => {
  const tasks = { COMPLETED: '0-5', FAILED: '6', RUNNING: '7-9' };
  const row = only([job('one', { tasks })]);
  expect(matters(row, NOW_S)).toBe('6/10 · 1 failed');
  expect(used(row, NOW_S)).toBeCloseTo(0.7);
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

test('a running array shows the tasks in the queue first, then those that have ended', () => {
  const array = job('one', { slurm_id: '7', tasks: { COMPLETED: '0', RUNNING: '1' } });
  const entries = [entry('7_1', { array_id: '7', id: 'one' })];
  const lines = linesOf(lists([array], entries), () => true);
  expect(lines.flatMap(line => (line.kind === 'job' ? [line.row.slurmId] : []))).toEqual([
    '7',
    '7_1',
    '7_0'
  ]);
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

test('an ended row says how, and how long it ran', () => {
  const ran = { started_s: NOW_S - 3600, ended_s: NOW_S - 2855 };
  const words = (state: Job['state']): string =>
    matters(only([job('one', { ...ran, state })]), NOW_S);
  expect(words('COMPLETED')).toBe('12 min');
  expect(words('OUT_OF_MEMORY')).toBe('out of memory · 12 min');
});

test('of what has not changed the rows stay the same objects', () => {
  const index = new JobIndex();
  const jobs = Array.from({ length: 50 }, (_, at) => job(`j${at}`, { slurm_id: `${at}` }));
  const entries = [entry('900'), entry('901')];
  const before = told(index, jobs, entries, []);
  expect(told(index, jobs, entries, [])).toBe(before);
  const changed = jobs.map(one => (one.id === 'j7' ? { ...one, nodes: ['n1'] } : one));
  const after = told(index, changed, entries, []).get('running') ?? [];
  const known = new Set(before.get('running'));
  expect(after.filter(row => !known.has(row)).map(row => row.name)).toEqual(['j7']);
  const gone = told(index, changed.slice(1), [], []).get('running') ?? [];
  expect(gone).toHaveLength(49);
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

test('groups are in the order of a life, the last day first', () => {
  const over = { state: 'COMPLETED' as const };
  const groups = lists([
    job('a', { ...over, ended_s: NOW_S - 86_400 }),
    job('b', { ...over, ended_s: NOW_S }),
    job('c', { state: 'PENDING' }),
    job('d')
  ]);
  const keys = linesOf(groups, () => false).map((one: Line) => one.key);
  expect(keys).toEqual(['running', 'waiting', TODAY, YESTERDAY]);
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
  expect(reasons(row, NOW_S)).toHaveLength(1);
  expect(reasons(row, NOW_S)[0]).toMatch(/^Not known since .*: No answer$/);
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

test('thousands are counted in groups of three digits', () => {
  const line: Line = { kind: 'group', key: '', group: 'waiting', count: 4_800, open: true };
  expect(lineSentence(line, 0, false)).toBe('Waiting 4,800');
});
