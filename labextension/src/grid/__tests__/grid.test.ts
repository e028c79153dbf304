import { remembered, shownOf, usual, type Column } from '../columns';
import { ordered } from '../order';
import { asksFor, narrows, testOf, toggled } from '../terms';

interface Item {
  name: string;
  count: number | null;
  ran: number;
}

const COLUMNS: Column<Item>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 100,
    usual: true,
    number: false,
    text: item => item.name,
    value: item => item.name,
    words: item => item.name.toLowerCase()
  },
  {
    id: 'count',
    title: 'Count',
    width: 50,
    usual: true,
    number: true,
    text: item => String(item.count),
    value: item => item.count,
    words: item => String(item.count ?? ''),
    amount: item => item.count
  },
  {
    id: 'time',
    title: 'Time',
    width: 50,
    usual: false,
    number: true,
    text: item => String(item.ran),
    value: item => item.ran,
    words: () => '',
    amount: (item, nowS) => nowS - item.ran,
    span: true
  }
];
const ITEMS: Item[] = [
  { name: 'Ten', count: 10, ran: 0 },
  { name: 'two words', count: 2, ran: 3600 },
  { name: 'none', count: null, ran: 7100 },
  { name: 'b:ten', count: 100, ran: 7200 }
];
const [, COUNT] = COLUMNS;
const byName = (one: Item, other: Item): number => (one.name < other.name ? -1 : 1);

function found(words: string): string[] {
  return ITEMS.filter(testOf(words, COLUMNS, 7200)).map(item => item.name);
}

test.each([
  ['', ['Ten', 'two words', 'none', 'b:ten']],
  ['TEN', ['Ten', 'b:ten']],
  ['ten 100', ['b:ten']],
  ['name:ten', ['Ten', 'b:ten']],
  ['name:tw,no', ['two words', 'none']],
  ['-ten', ['two words', 'none']],
  ['-name:ten -none', ['two words']],
  ['"o w"', ['two words']],
  ['"o w', ['two words']],
  ['name:"two words"', ['two words']],
  ['count>2', ['Ten', 'b:ten']],
  ['count>=2 count<100', ['Ten', 'two words']],
  ['count=2', ['two words']],
  ['time>=2h', ['Ten']],
  ['time<120s', ['none', 'b:ten']],
  ['time<120', ['two words', 'none', 'b:ten']],
  ['b:ten', ['b:ten']],
  // These words are incomplete.
  ['count>', ['Ten', 'two words', 'none', 'b:ten']],
  ['name: time>x "', ['Ten', 'two words', 'none', 'b:ten']]
])('the filter %s finds its items', (words, names) => expect(found(words)).toEqual(names));

const TYPED = [
  'ten 100',
  'name:ten,two -none',
  '-ten "o w" none',
  '"two words" count>2 b',
  'b:ten time>2h n',
  'count:1,0 name:t',
  'name:"two w" -"ne'
];

test.each(TYPED)('narrowing the filter to %s finds the same items', typed => {
  let [words, among, narrowed] = ['', ITEMS, 0];
  for (let end = 1; end <= typed.length; end += 1) {
    const next = typed.slice(0, end);
    const isNarrower = narrows(words, next);
    narrowed += isNarrower ? 1 : 0;
    among = (isNarrower ? among : ITEMS).filter(testOf(next, COLUMNS, 7200));
    expect(among).toEqual(ITEMS.filter(testOf(next, COLUMNS, 7200)));
    words = next;
  }
  expect(narrowed).toBeGreaterThan(typed.length / 2);
});

test('a chip adds its value to the values of its field, and removes it again', () => {
  const one = toggled('ana', 'state', 'running');
  expect(one).toBe('ana state:running');
  const two = toggled(one, 'state', 'pending');
  expect(two).toBe('ana state:running,pending');
  expect(asksFor(two, 'state', 'pending')).toBe(true);
  expect(asksFor(two, 'state', 'run')).toBe(false);
  expect(toggled(toggled(two, 'state', 'running'), 'state', 'pending')).toBe('ana');
});

test('numbers are sorted numerically, and unknown values come last in both directions', () => {
  const counts = (down: boolean): (number | null)[] =>
    ordered([], ITEMS, COUNT, { column: 'count', down }, byName).map(item => item.count);
  expect(counts(false)).toEqual([2, 10, 100, null]);
  expect(counts(true)).toEqual([100, 10, 2, null]);
});

test('remembered columns are restored, except removed columns', () => {
  const first = usual(COLUMNS, { column: 'name', down: false });
  expect(first.columns).toEqual(['name', 'count']);
  expect(remembered(undefined, first)).toBe(first);
  expect(remembered({ columns: [], widths: 3 }, first)).toEqual(first);
  const saved = remembered({ columns: ['gone', 'count'], widths: { count: 70 } }, first);
  expect(shownOf(COLUMNS, saved).map(({ column, width }) => [column.id, width])).toEqual([
    ['count', 70]
  ]);
});
