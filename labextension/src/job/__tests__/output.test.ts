import type { LogChunk, Output } from '../../wire';
import { NOTHING, textOf, withChunk, type Block, type Shown, type Wanted } from '../output';
import { Search } from '../search';
import { chunk, err, out } from './fakes';

const figure = (id: string | null, text: string): Output => ({
  type: 'display_data',
  data: { 'text/plain': text },
  metadata: {},
  display_id: id
});

function shownOf(...chunks: LogChunk[]): Shown {
  return chunks.reduce(withChunk, NOTHING);
}

function text({ blocks }: Shown, wanted: Wanted = 'all'): string {
  return blocks.map(block => textOf(block, wanted)).join('');
}

const kinds = ({ blocks }: Shown): Block['kind'][] => blocks.map(block => block.kind);

describe("a job's output", () => {
  test('chunks are joined in order and completely', () => {
    const shown = shownOf(chunk(out('a'), out('b\nc')), chunk(out('d\n')), chunk(out('e')));
    expect(text(shown)).toBe('ab\ncd\ne');
    expect(kinds(shown)).toEqual(['text']);
  });

  test('a progress line is rewritten across chunks', () => {
    const shown = shownOf(chunk(err('10%')), chunk(err('\r20%\r')), chunk(err('30%\n')));
    expect(text(shown)).toBe('30%\n');
  });

  test('each stream has its own lines, and can be shown alone', () => {
    const shown = shownOf(chunk(out('out'), err('err\n'), out('more\n')));
    expect(text(shown)).toBe('out\nerr\nmore\n');
    expect(text(shown, 'stdout')).toBe('out\nmore\n');
    expect(text(shown, 'stderr')).toBe('err\n');
  });

  test('an error is a traceback on standard error', () => {
    const error: Output = {
      type: 'error',
      ename: 'ValueError',
      evalue: 'x',
      traceback: ['Traceback', 'ValueError: x']
    };
    const shown = shownOf(chunk(out('a\n'), error));
    expect(text(shown, 'stderr')).toBe('Traceback\nValueError: x\n');
    expect(text(shown, 'stdout')).toBe('a\n');
  });

  test("a notebook's output has its cells' heads and allowed errors", () => {
    const mark = (content: Record<string, unknown>): Output => ({
      type: 'display_data',
      data: { 'application/vnd.jupyter-slurm.notebook+json': content },
      metadata: {},
      display_id: null
    });
    const error = { ename: 'ValueError', evalue: 'x', traceback: ['ValueError: x'] };
    const shown = shownOf(
      chunk(mark({ notebook: { cells: [] } }), mark({ cell: 0 }), out('a\n'), mark({ cell: 2 })),
      chunk(mark({ error }))
    );
    expect(kinds(shown)).toEqual(['cell', 'text', 'cell', 'text']);
    expect(shown.blocks[2]).toMatchObject({ cell: 2 });
    expect(text(shown, 'stderr')).toBe('ValueError: x\n');
  });

  test('displays appear between text, and an update redraws its display', () => {
    const again: Output = {
      type: 'update_display_data',
      data: { 'text/plain': 'two' },
      metadata: {},
      display_id: 'it'
    };
    const shown = shownOf(chunk(out('a\n'), figure('it', 'one'), out('b\n')), chunk(again));
    expect(kinds(shown)).toEqual(['text', 'display', 'text']);
    expect(shown.blocks[1]).toMatchObject({ data: { 'text/plain': 'two' } });
  });

  test('output is cleared at once or by the next output', () => {
    const before = chunk(out('a\n'));
    const clear = (wait: boolean): Output => ({ type: 'clear_output', wait });
    expect(shownOf(before, chunk(clear(false))).blocks).toEqual([]);
    const waits = shownOf(before, chunk(clear(true)));
    expect(text(waits)).toBe('a\n');
    expect(text(withChunk(waits, chunk(out('b\n'))))).toBe('b\n');
  });

  test('gaps show where and how much output was left out', () => {
    const shown = shownOf(
      { ...chunk(out('late\n')), skipped_bytes: 500 },
      { ...chunk(out('later\n')), skipped_bytes: 7 }
    );
    expect(kinds(shown)).toEqual(['gap', 'text', 'gap', 'text']);
    expect(shown.blocks).toMatchObject([{ bytes: 500 }, {}, { bytes: 7 }, {}]);
  });
});

describe('the time of a line', () => {
  const linesOf = ({ blocks }: Shown): [string, number][] =>
    blocks
      .flatMap(block => (block.kind === 'text' ? block.runs : []))
      .flatMap(({ text: whole, times }) => {
        const lines = whole.split(/(?<=\n)/);
        expect(times).toHaveLength(lines.length);
        return lines.map((line, at): [string, number] => [line, times[at] ?? -1]);
      });

  test("a line's time is that of its start, unknown for old output", () => {
    const shown = shownOf(
      chunk(out('old\n')),
      chunk(out('a\nb', 7), out('b\nc\n', 8)),
      chunk(err('e\n', 8), out('d', 9)),
      chunk(out('\n', 10))
    );
    expect(linesOf(shown)).toEqual([
      ['old\n', 0],
      ['a\n', 7],
      ['bb\n', 7],
      ['c\n', 8],
      ['e\n', 8],
      ['d\n', 9]
    ]);
    expect(shown.since).toBe(7);
  });

  test("a rewritten line's time is that of its last change", () => {
    const first = shownOf(chunk(err('10%', 1), err('\r20%', 2)), chunk(err('\r30%\r', 3)));
    expect(linesOf(first)).toEqual([['30%\r', 3]]);
    const then = shownOf(
      chunk(err('10%\r', 1)),
      chunk(err('20%\r', 2), err('\n', 3)),
      chunk(err('next', 4))
    );
    expect(linesOf(then)).toEqual([
      ['20%\n', 2],
      ['next', 4]
    ]);
  });
});

describe('large output', () => {
  const lines = (from: number, count: number): string =>
    Array.from({ length: count }, (_, at) => `line ${from + at}\n`).join('');

  test('output is split into blocks, and earlier blocks stay unchanged', () => {
    const first = shownOf(chunk(out(lines(0, 1_000))));
    const then = withChunk(first, chunk(out(lines(1_000, 300))));
    expect(then.blocks.slice(0, 4)).toEqual(first.blocks.slice(0, 4));
    expect(then.blocks[0]).toBe(first.blocks[0]);
    expect(text(then)).toBe(lines(0, 1_300));
    expect(new Set(then.blocks.map(block => block.key)).size).toBe(then.blocks.length);
    for (const block of then.blocks) {
      expect(block).toMatchObject({ kind: 'text' });
      expect(textOf(block, 'all').split('\n').length - 1).toBeLessThanOrEqual(200);
    }
  });

  test("a block starts with the last block's colour", () => {
    const shown = shownOf(chunk(out(`\u001b[31m${lines(0, 250)}`)));
    expect(shown.blocks[1]).toMatchObject({ runs: [{ style: '\u001b[31m' }] });
  });

  test('excess output is dropped from the front and counted there', () => {
    const mebi = `${'x'.repeat(1023)}\n`.repeat(1024);
    let shown = NOTHING;
    for (let count = 0; count < 20; count += 1) {
      shown = withChunk(shown, chunk(out(mebi)));
    }
    const kept = text(shown).length;
    expect(kept).toBeLessThanOrEqual(16 * 1024 * 1024);
    expect(kept).toBeGreaterThan(15 * 1024 * 1024);
    expect(shown.chars).toBe(kept);
    expect(kinds(shown).filter(kind => kind === 'gap')).toHaveLength(1);
    expect(shown.blocks[0]).toMatchObject({ kind: 'gap', bytes: 20 * 1024 * 1024 - kept });
  });
});

describe('search', () => {
  const shown = shownOf(
    chunk(out('Epoch 1\nepoch 2\n'), err('EPOCH 3 \u001b[31mep\u001b[0moch 4\n'))
  );

  test('search ignores case and colours, and counts in order', () => {
    const search = new Search('epoch', 'all');
    expect(search.count(shown.blocks)).toBe(4);
    expect(search.match(shown.blocks, 3)).toEqual({ key: shown.blocks[0]?.key, at: 3 });
    expect(search.match(shown.blocks, 4)).toBeNull();
  });

  test('search input is plain text', () => {
    expect(new Search('.*', 'all').count(shown.blocks)).toBe(0);
    expect(new Search('', 'all').count(shown.blocks)).toBe(0);
    expect(new Search('a(', 'all').count(shownOf(chunk(out('a('))).blocks)).toBe(1);
  });
});
