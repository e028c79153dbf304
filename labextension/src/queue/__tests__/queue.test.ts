import { ordered } from '../../grid/order';
import { testOf } from '../../grid/terms';
import type { QueueEntry } from '../../wire';
import { targetsOf } from '../choice';
import { columnsOf } from '../columns';
import { isArray, rowsOf, shownEntry, stateCounts, tie, type Row } from '../listing';

const COLUMNS = columnsOf();
const CLOSED = new Set<string>();

function entry(slurm_id: string, more: Partial<QueueEntry> = {}): QueueEntry {
  return {
    slurm_id,
    state: 'PENDING',
    name: `job ${slurm_id}`,
    user: 'ana',
    partition: 'p',
    ...more
  };
}

function inOrder(entries: QueueEntry[], column: string): string[] {
  const wanted = COLUMNS.find(({ id }) => id === column);
  return ordered([], entries, wanted, { column, down: false }, tie).map(one => one.slurm_id);
}

function keys(rows: Row[]): string[] {
  return rows.map(row => row.key);
}

test('states are sorted by what they mean, and those alike by priority and age', () => {
  const entries = [
    entry('9', { priority: 5 }),
    entry('10', { priority: 5 }),
    entry('11', { priority: 7 }),
    entry('12', { state: 'RUNNING' }),
    entry('13', { state: 'SUSPENDED' })
  ];
  expect(inOrder(entries, 'state')).toEqual(['12', '13', '11', '9', '10']);
});

test('ids are sorted as numbers, the tasks of an array in their order', () => {
  const ids = ['100_[11-20]', '100_10', '100_9', '99', '1000'];
  expect(
    inOrder(
      ids.map(id => entry(id)),
      'id'
    )
  ).toEqual(['99', '100_9', '100_10', '100_[11-20]', '1000']);
});

test('an array is one row that opens', () => {
  const tasks = [
    entry('7_1', { array_id: '7', state: 'RUNNING', started_s: 10, gpus: 1, node_count: 1 }),
    entry('8'),
    entry('7_2', { array_id: '7', state: 'RUNNING', started_s: 20, gpus: 1, node_count: 1 }),
    entry('7_[3-6%2]', { array_id: '7', gpus: 1, node_count: 1 })
  ];
  const closed = rowsOf(tasks, CLOSED);
  expect(keys(closed)).toEqual(['7', '8']);
  expect(closed.map(isArray)).toEqual([true, false]);
  const [array] = closed;
  expect(array && shownEntry(array)).toMatchObject({ slurm_id: '7', gpus: 2, node_count: 2 });
  expect(stateCounts(tasks)).toEqual([
    ['RUNNING', 2],
    ['PENDING', 5]
  ]);
  const open = rowsOf(tasks, new Set(['7']));
  expect(keys(open)).toEqual(['7', '7_1', '7_2', '7_[3-6%2]', '8']);
});

test('a filter finds what is shown and what Slurm calls it', () => {
  const waits = entry('1', { why: 'Others come first.', reason: 'Priority', gpus: 2 });
  const runs = entry('2', { state: 'RUNNING', started_s: 1000, limit_s: 3600 });
  const found = (words: string): string[] =>
    [waits, runs].filter(testOf(words, COLUMNS, 9000)).map(one => one.slurm_id);
  expect(found('others')).toEqual(['1']);
  expect(found('reason:priority')).toEqual(['1']);
  expect(found('state:waiting')).toEqual(['1']);
  expect(found('state:running,pending')).toEqual(['1', '2']);
  expect(found('gpus>0')).toEqual(['1']);
  expect(found('time>2h')).toEqual(['2']);
  expect(found('limit<=60m')).toEqual(['2']);
});

test('what is done to the chosen is done to those that are seen and ones own, arrays as one', () => {
  const entries = [
    entry('1', { id: 'aaaaaaaa' }),
    entry('2', { user: 'bo' }),
    entry('7_1', { array_id: '7' }),
    entry('7_2', { array_id: '7' })
  ];
  const rows = rowsOf(entries, new Set(['7']));
  const all = new Set([...keys(rows), 'gone']);
  expect(targetsOf('c', rows, all, one => one.user === 'ana')).toEqual([
    { cluster: 'c', id: 'aaaaaaaa', slurm_id: '1' },
    { cluster: 'c', id: null, slurm_id: '7' }
  ]);
  const task = new Set(rows.filter(row => row.entry.slurm_id === '7_2').map(row => row.key));
  expect(targetsOf('c', rows, task, () => true)).toEqual([
    { cluster: 'c', id: null, slurm_id: '7_2' }
  ]);
});
