import { chosen, NOTHING } from '../../grid/choice';
import { shownOf, widthOf } from '../../grid/columns';
import { ordered } from '../../grid/order';
import { testOf } from '../../grid/terms';
import type { QueueEntry } from '../../wire';
import { targetsOf } from '../choice';
import { columnsOf, elapsedS } from '../columns';
import { isArray, rowsOf, shownEntry, stateCounts, tie, type Row } from '../listing';
import { lookOf, usualLook } from '../look';

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

function inOrder(entries: QueueEntry[], column: string, down = false): string[] {
  const wanted = COLUMNS.find(({ id }) => id === column);
  return ordered([], entries, wanted, { column, down }, tie).map(one => one.slurm_id);
}

function keys(rows: Row[]): string[] {
  return rows.map(row => row.key);
}

const find = (rows: Row[]) => (key: string) => rows.findIndex(row => row.key === key);

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

test('every column can be sorted by, and its text never fails', () => {
  const bare = entry('1');
  for (const column of COLUMNS) {
    expect(inOrder([bare, entry('2', { gpus: 2, priority: 3 })], column.id)).toHaveLength(2);
    expect(typeof column.text(bare, 100)).toBe('string');
    expect(typeof (column.hint?.(bare, 100) ?? '')).toBe('string');
  }
});

test('the queue uses the same words as the sidebar', () => {
  const told = (more: Partial<QueueEntry>): string[] =>
    ['name', 'state', 'time', 'limit', 'why'].map(id => {
      const column = COLUMNS.find(one => one.id === id);
      return column?.text(entry('1', { name: 'fit.abcdefgh', ...more }), 10_000) ?? '';
    });
  expect(told({ id: 'abcdefgh', state: 'RUNNING', started_s: 9275, limit_s: 6480 })).toEqual([
    'fit',
    'running',
    '12 min',
    '1 h 48',
    ''
  ]);
  expect(told({ reason: 'JobHeldUser', why: 'On hold (by you).' })).toEqual([
    'fit.abcdefgh',
    'on hold',
    '',
    '',
    ''
  ]);
  expect(told({ reason: 'BeginTime', why: 'Its start time.' })[4]).toBe('starts later');
  expect(told({ reason: 'NewOfSlurm', why: 'A sentence.' })[4]).toBe('NewOfSlurm');
});

test('every usual column is as wide as its head, and all are seen in a small window', () => {
  const shown = shownOf(COLUMNS, usualLook().arrangement);
  expect(shown.reduce((sum, { width }) => sum + width, 0)).toBeLessThanOrEqual(950);
  const [narrow] = COLUMNS;
  const title = 'パーティション';
  expect(narrow && widthOf({ ...narrow, title, width: 40 })).toBeGreaterThan(7 * 13 + 12);
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

test('rows are chosen alone, beside each other, and from one to another', () => {
  const rows = rowsOf(
    ['1', '2', '3', '4'].map(id => entry(id)),
    CLOSED
  );
  const at = find(rows);
  const one = chosen(NOTHING, rows, at, 1, 'only');
  expect([...one.keys]).toEqual(['2']);
  expect([...chosen(one, rows, at, 3, 'range').keys]).toEqual(['2', '3', '4']);
  expect([...chosen(one, rows, at, 0, 'range').keys]).toEqual(['1', '2']);
  const two = chosen(one, rows, at, 3, 'add');
  expect([...two.keys]).toEqual(['2', '4']);
  expect([...chosen(two, rows, at, 1, 'add').keys]).toEqual(['4']);
  expect(chosen(two, rows, at, 9, 'only')).toBe(NOTHING);
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

test('how long one has run is known of those that have begun', () => {
  expect(elapsedS(entry('1'), 100)).toBeNull();
  expect(elapsedS(entry('1', { started_s: 40 }), 100)).toBe(60);
  expect(elapsedS(entry('1', { started_s: 40, ended_s: 50 }), 100)).toBe(10);
  expect(elapsedS(entry('1', { started_s: 140 }), 100)).toBe(0);
});

test('a look is remembered, and what cannot be read is the usual one', () => {
  const look = { ...usualLook(), everyone: false };
  expect(lookOf(look)).toEqual(look);
  expect(lookOf(null)).toEqual(usualLook());
});
