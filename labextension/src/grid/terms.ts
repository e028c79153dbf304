// A typed filter as a test of an item. No I/O, and fast enough for 50,000 items at every key.
import type { Column } from './columns';

type Test<T> = (item: T) => boolean;

const TERM = /(-?)(?:([a-z_]+)(:|<=|>=|<|>|=))?(?:"([^"]*)"?|(\S*))/gu;
const SPANS: Record<string, number> = { s: 1, m: 60, min: 60, h: 3600, d: 86_400 };

interface Word {
  not: boolean;
  /** The field; '' for any. */
  field: string;
  /** The word; '' if only the field is typed. */
  sign: string;
  wanted: string;
}

function wordsOf(words: string): Word[] {
  return [...words.toLowerCase().matchAll(TERM)].map(([, not, field, sign, quoted, plain]) => ({
    not: not === '-',
    field: field ?? '',
    sign: sign ?? '',
    wanted: quoted ?? plain ?? ''
  }));
}

/**
 * Parse a filter. All words must match: `ana` in any column, `user:ana,bo` in that column (either
 * value), `"two words"` literally, `gpus>0` and `time>2h` by comparison. `-word` must not match.
 * Incomplete words are ignored.
 */
export function testOf<T extends object>(
  words: string,
  columns: readonly Column<T>[],
  nowS: number
): Test<T> {
  const textOf = textsOf(columns);
  const tests: Test<T>[] = [];
  for (const { not, field, sign, wanted } of wordsOf(words)) {
    const test = field
      ? testOfField(columns, field, sign, wanted, nowS)
      : wanted === ''
        ? null
        : undefined;
    if (test === null) {
      continue;
    }
    const whole = `${field}${sign}${wanted}`;
    const holds = test ?? ((item: T) => textOf(item).includes(whole));
    tests.push(not ? item => !holds(item) : holds);
  }
  return item => tests.every(test => test(item));
}

/**
 * Return whether `after` finds a subset of the matches of `before`, because each word of `before`
 * is kept or extended. A comparison never narrows, since its matches change with time.
 */
export function narrows(before: string, after: string): boolean {
  const now = wordsOf(after);
  return wordsOf(before).every(
    was => (was.field === '' && was.wanted === '') || now.some(word => hasGrownFrom(was, word))
  );
}

function hasGrownFrom(was: Word, now: Word): boolean {
  if (now.not !== was.not || now.field !== was.field || now.sign !== was.sign) {
    return false;
  }
  if (was.sign !== '' && was.sign !== ':') {
    return false;
  }
  const isList = was.field !== '' && `${was.wanted}${now.wanted}`.includes(',');
  return now.wanted === was.wanted || (!was.not && !isList && now.wanted.includes(was.wanted));
}

/** Return the comparison; null if it is incomplete, undefined if the column does not exist. */
function testOfField<T>(
  columns: readonly Column<T>[],
  field: string,
  sign: string,
  wanted: string,
  nowS: number
): Test<T> | null | undefined {
  const column = columns.find(({ id }) => id === field);
  if (column === undefined) {
    return undefined;
  }
  const { amount, words } = column;
  if (amount !== undefined && sign !== ':') {
    const than = column.span ? spanOf(wanted) : numberOf(wanted);
    return than === null ? null : item => compared(amount(item, nowS), sign, than);
  }
  const any = wanted.split(',').filter(part => part !== '');
  return any.length === 0 ? null : item => any.some(part => words(item).includes(part));
}

function compared(value: number | null, sign: string, than: number): boolean {
  if (value === null) {
    return false;
  }
  switch (sign) {
    case '<':
      return value < than;
    case '<=':
      return value <= than;
    case '>':
      return value > than;
    case '>=':
      return value >= than;
    default:
      return value === than;
  }
}

function numberOf(text: string): number | null {
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : null;
}

/** Return the duration in seconds. A bare number is minutes, as in Slurm's options. */
function spanOf(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)(s|min|m|h|d)?$/.exec(text);
  return match === null ? null : Number(match[1]) * (SPANS[match[2] ?? 'm'] ?? 60);
}

/**
 * The property with an item's cached text. A changed item is a new object. Looking up 50,000 texts
 * in a WeakMap takes ten times as long as searching them.
 */
const TEXT = Symbol('text');

interface Kept {
  [TEXT]?: { of: object; text: string };
}

/** Return all words of an item in lower case, cached. */
function textsOf<T extends object>(columns: readonly Column<T>[]): (item: T & Kept) => string {
  return item => {
    let kept = item[TEXT];
    if (kept?.of !== columns) {
      kept = { of: columns, text: columns.map(({ words }) => words(item)).join('\n') };
      item[TEXT] = kept;
    }
    return kept.text;
  };
}

/** Build the cached texts, so that the first key does not wait for them. */
export function prepare<T extends object>(
  items: readonly T[],
  columns: readonly Column<T>[]
): void {
  items.forEach(textsOf(columns));
}

/** Return the words with `field:value` added or removed. */
export function toggled(words: string, field: string, value: string): string {
  const match = new RegExp(`(^|\\s)${field}:(\\S*)`, 'iu').exec(words);
  if (match === null) {
    return `${words.trimEnd()} ${field}:${value}`.trimStart();
  }
  const values = (match[2] ?? '').split(',').filter(one => one !== '');
  const next = values.includes(value) ? values.filter(one => one !== value) : [...values, value];
  const term = next.length === 0 ? '' : `${match[1] ?? ''}${field}:${next.join(',')}`;
  return words.replace(match[0], () => term).trim();
}

/** Return whether the words filter that field by `value`. */
export function asksFor(words: string, field: string, value: string): boolean {
  const match = new RegExp(`(?:^|\\s)${field}:(\\S*)`, 'iu').exec(words);
  return match?.[1]?.split(',').includes(value) ?? false;
}
