import { ordered } from '../../grid/order';
import { testOf } from '../../grid/terms';
import { job, listed } from '../../__tests__/fakes';
import type { ListedJob, Row } from '../../wire';
import { targetsOf } from '../choice';
import { columnsOf } from '../columns';
import { arraysOf, isArray, linesOf, stateCounts, tie, type Line } from '../listing';

const COLUMNS = columnsOf();
const CLOSED = new Set<string>();

function entry(slurm_id: string, more: Partial<ListedJob> = {}): ListedJob {
  return listed(slurm_id, { state: 'PENDING', mine: false, ...more });
}

function inOrder(rows: Row[], column: string): unknown[] {
  const wanted = COLUMNS.find(({ id }) => id === column);
  return ordered([], rows, wanted, { column, down: false }, tie).map(one => one.slurm_id);
}

function keys(lines: Line[]): string[] {
  return lines.map(line => line.key.replace('arandu ', ''));
}

const ARRAY = [
  entry('7_1', { array: 'arandu 7', state: 'RUNNING', started_s: 10, mine: true }),
  entry('8'),
  entry('7', { tasks: { COMPLETED: '0', RUNNING: '1-2', PENDING: '3-6' }, gpus: 2, mine: true }),
  entry('7_2', { array: 'arandu 7', state: 'RUNNING', started_s: 20, mine: true }),
  entry('7_[3-6%2]', { array: 'arandu 7', mine: true })
];

test('states are sorted by meaning, and equal states by priority and age', () => {
  const entries = [
    entry('9', { priority: 5 }),
    entry('10', { priority: 5 }),
    entry('11', { priority: 7 }),
    entry('12', { state: 'RUNNING' }),
    entry('13', { state: 'SUSPENDED' })
  ];
  expect(inOrder(entries, 'state')).toEqual(['12', '13', '11', '9', '10']);
});

test("IDs are sorted as numbers, and an array's tasks by index", () => {
  const ids = ['100_[11-20]', '100_10', '100_9', '99', '1000'];
  expect(
    inOrder(
      ids.map(id => entry(id)),
      'id'
    )
  ).toEqual(['99', '100_9', '100_10', '100_[11-20]', '1000']);
});

test('an array is one row that expands', () => {
  const arrays = arraysOf(ARRAY);
  const closed = linesOf(ARRAY, arrays, CLOSED);
  expect(keys(closed)).toEqual(['7', '8']);
  expect(closed.map(isArray)).toEqual([true, false]);
  expect(closed[0]?.row).toMatchObject({ slurm_id: '7', gpus: 2 });
  expect(stateCounts(ARRAY)).toEqual([
    ['RUNNING', 2],
    ['PENDING', 5]
  ]);
  const open = new Set(['arandu 7']);
  expect(keys(linesOf(ARRAY, arrays, open))).toEqual(['7', '7_1', '7_2', '7_[3-6%2]', '8']);
  const found = ARRAY.filter(row => row.slurm_id === '7_2');
  expect(linesOf(found, arrays, open)[0]?.row.slurm_id).toBe('7');
});

test("a filter finds shown texts and Slurm's names", () => {
  const waits = entry('1', { why: 'Others come first.', reason: 'Priority', gpus: 2 });
  const runs = entry('2', { state: 'RUNNING', started_s: 1000, limit_s: 3600 });
  const found = (words: string): unknown[] =>
    [waits, runs].filter(testOf(words, COLUMNS, 9000)).map(one => one.slurm_id);
  expect(found('others')).toEqual(['1']);
  expect(found('reason:priority')).toEqual(['1']);
  expect(found('state:waiting')).toEqual(['1']);
  expect(found('state:running,pending')).toEqual(['1', '2']);
  expect(found('gpus>0')).toEqual(['1']);
  expect(found('time>2h')).toEqual(['2']);
  expect(found('limit<=60m')).toEqual(['2']);
});

test('an action affects the visible selected jobs of the user, and an array as a whole', () => {
  const ours = job({ id: 'aaaaaaaa', slurm_id: '1', cluster: 'arandu' });
  const lines = linesOf([ours, entry('2'), ...ARRAY], arraysOf(ARRAY), new Set(['arandu 7']));
  const all = new Set([...lines.map(({ key }) => key), 'gone']);
  expect(targetsOf('arandu', lines, all)).toEqual([
    { cluster: 'arandu', id: 'aaaaaaaa', slurm_id: '1' },
    { cluster: 'arandu', id: null, slurm_id: '7' }
  ]);
  expect(targetsOf('arandu', lines, new Set(['arandu 7_2']))).toEqual([
    { cluster: 'arandu', id: null, slurm_id: '7_2' }
  ]);
});
