// The output of a job as blocks of lines, displays and gaps. Only the last block changes, and the
// others keep their identity. No I/O.
import type { LogChunk, Output, Stream } from '../wire';
import { asTerminal, openStyle, plain } from './terminal';
import { linesIn, timesOf, type Written } from './times';

const BLOCK_LINES = 200;
const BLOCK_CHARS = 64 * 1024;
/** Maximum to keep. The file has the rest. */
const MOST_BLOCKS = 2_000;
const MOST_CHARS = 16 * 1024 * 1024;

/** The marks of run_file.py between the cells of a notebook. */
const MARK = 'application/vnd.jupyter-slurm.notebook+json';

/** The start of a cell. `error` is the cell's traceback. */
export type Source = 'stdout' | 'stderr' | 'error';

/** Text of one source. */
export interface Run {
  source: Source;
  /** The colours at its start. */
  style: string;
  text: string;
  /** UTC epoch seconds of each line; 0 if unknown. */
  times: readonly number[];
}

export interface TextBlock {
  kind: 'text';
  key: number;
  runs: readonly Run[];
  lines: number;
  chars: number;
}

export interface DisplayBlock {
  kind: 'display';
  key: number;
  data: Record<string, unknown>;
  metadata: Record<string, unknown>;
  displayId: string | null;
  chars: number;
}

/** A gap in place of omitted output. */
interface GapBlock {
  kind: 'gap';
  key: number;
  bytes: number;
  chars: 0;
}

/** The start of a cell of the notebook. */
interface CellBlock {
  kind: 'cell';
  key: number;
  /** Its index in the notebook, from 0. */
  cell: number;
  chars: 0;
}

export type Block = TextBlock | DisplayBlock | GapBlock | CellBlock;

export interface Shown {
  blocks: readonly Block[];
  chars: number;
  /** The first known time of a line; 0 if all times are unknown. */
  since: number;
  /** The key of the next block. */
  next: number;
  /** True after `clear_output(wait=True)`: the next output then replaces all output. */
  clears: boolean;
}

export const NOTHING: Shown = { blocks: [], chars: 0, since: 0, next: 0, clears: false };

export function withChunk(shown: Shown, chunk: LogChunk): Shown {
  const draft = new Draft(shown);
  if (chunk.skipped_bytes > 0) {
    draft.gap(chunk.skipped_bytes);
  }
  for (const one of grouped(chunk.outputs)) {
    if (Array.isArray(one)) {
      draft.takeText(one);
    } else {
      draft.take(one);
    }
  }
  return draft.done();
}

/** Group the text of one stream, since each piece creates a new last block. */
function grouped(outputs: readonly Output[]): (Exclude<Output, Stream> | Stream[])[] {
  const found: ReturnType<typeof grouped> = [];
  for (const output of outputs) {
    const last = found.at(-1);
    if (output.type !== 'stream') {
      found.push(output);
    } else if (Array.isArray(last) && last[0]?.name === output.name) {
      last.push(output);
    } else {
      found.push([output]);
    }
  }
  return found;
}

export type Wanted = 'all' | 'stdout' | 'stderr';

/** The text of a block without colours. */
export function textOf(block: Block, wanted: Wanted): string {
  if (block.kind !== 'text') {
    return '';
  }
  return runsOf(block, wanted)
    .map(run => plain(run.text))
    .reduce((whole, text) => (whole === '' ? text : `${endLine(whole)}${text}`), '');
}

export function runsOf(block: TextBlock, wanted: Wanted): readonly Run[] {
  return wanted === 'all'
    ? block.runs
    : block.runs.filter(run => (run.source === 'stdout') === (wanted === 'stdout'));
}

/** Return the text with a line break at its end, since another source starts a new line. */
function endLine(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** The blocks while a chunk is added. */
class Draft {
  private blocks: Block[];
  private chars: number;
  private since: number;
  private next: number;
  private clears: boolean;

  constructor(shown: Shown) {
    this.blocks = [...shown.blocks];
    ({ chars: this.chars, since: this.since, next: this.next, clears: this.clears } = shown);
  }

  done(): Shown {
    this.bound();
    const { blocks, chars, since, next, clears } = this;
    return { blocks, chars, since, next, clears };
  }

  gap(bytes: number): void {
    const last = this.blocks.at(-1);
    if (last?.kind === 'gap') {
      this.blocks[this.blocks.length - 1] = { ...last, bytes: last.bytes + bytes };
    } else {
      this.blocks.push({ kind: 'gap', key: this.next++, bytes, chars: 0 });
    }
  }

  takeText(written: readonly Stream[]): void {
    this.clear();
    this.text(written[0]?.name ?? 'stdout', written);
  }

  take(output: Exclude<Output, Stream>): void {
    switch (output.type) {
      case 'hello':
        return;
      case 'clear_output':
        this.clears = true;
        if (!output.wait) {
          this.clear();
        }
        return;
      case 'update_display_data':
        this.blocks = this.blocks.map(block =>
          block.kind === 'display' && block.displayId === output.display_id
            ? { ...block, data: output.data, metadata: output.metadata }
            : block
        );
        return;
      case 'error':
        this.clear();
        this.error(output.traceback);
        return;
      case 'display_data':
        this.display(output.data, output.metadata, output.display_id);
        return;
      case 'execute_result':
        this.display(output.data, output.metadata, null);
    }
  }

  private clear(): void {
    if (this.clears) {
      this.blocks = [];
      this.chars = 0;
      this.clears = false;
    }
  }

  private display(
    data: Record<string, unknown>,
    metadata: Record<string, unknown>,
    displayId: string | null
  ): void {
    this.clear();
    if (isRecord(data[MARK])) {
      this.mark(data[MARK]);
      return;
    }
    const texts = Object.values(data).filter(one => typeof one === 'string');
    const chars = texts.reduce((sum, text) => sum + text.length, 0);
    const key = this.next++;
    this.chars += chars;
    this.blocks.push({ kind: 'display', key, data, metadata, displayId, chars });
  }

  /** Start a cell, or show its error. Skip the first mark, which contains the notebook. */
  private mark({ cell, error }: Record<string, unknown>): void {
    if (typeof cell === 'number') {
      this.blocks.push({ kind: 'cell', key: this.next++, cell, chars: 0 });
    } else if (isRecord(error) && Array.isArray(error.traceback)) {
      this.error(error.traceback);
    }
  }

  private error(traceback: readonly unknown[]): void {
    this.text('error', [{ text: `${traceback.join('\n')}\n`, time_s: 0 }]);
  }

  private text(source: Source, written: readonly Written[]): void {
    const last = this.blocks.at(-1);
    const block = last?.kind === 'text' ? last : this.begun();
    const run = block.runs.at(-1);
    const goesOn = run?.source === source;
    const before = goesOn ? run.text : '';
    const times = timesOf(before, goesOn ? run.times : [], written);
    let from = 0;
    let style = goesOn ? run.style : '';
    let rest = asTerminal(written.reduce((whole, { text }) => whole + text, before));
    let runs = goesOn ? block.runs.slice(0, -1) : block.runs;
    let key = block.key;
    this.chars -= block.chars;
    this.since ||= times.find(time => time > 0) ?? 0;
    this.blocks.pop();
    do {
      const taken = fitting(rest, BLOCK_LINES - linesOf(runs), BLOCK_CHARS - charsOf(runs));
      const piece = rest.slice(0, taken);
      rest = rest.slice(taken);
      const end = from + linesIn(piece);
      const begun = { source, style, text: piece, times: times.slice(from, end) };
      this.put(key, piece === '' ? runs : [...runs, begun]);
      // Both parts of a split line have its time.
      from = piece.endsWith('\n') ? end : end - 1;
      style = openStyle(style + piece);
      runs = [];
      key = rest === '' ? key : this.next++;
    } while (rest !== '');
  }

  private begun(): TextBlock {
    const block: TextBlock = { kind: 'text', key: this.next++, runs: [], lines: 0, chars: 0 };
    this.blocks.push(block);
    return block;
  }

  private put(key: number, runs: readonly Run[]): void {
    if (runs.length > 0) {
      const chars = charsOf(runs);
      this.chars += chars;
      this.blocks.push({ kind: 'text', key, runs, lines: linesOf(runs), chars });
    }
  }

  /** Drop the oldest blocks above the maximum. Count them in a gap. */
  private bound(): void {
    let dropped = 0;
    let from = 0;
    let bytes = 0;
    while (
      this.blocks.length - from > MOST_BLOCKS ||
      (this.chars - dropped > MOST_CHARS && this.blocks.length - from > 1)
    ) {
      const block = this.blocks[from];
      dropped += block?.chars ?? 0;
      bytes += block?.kind === 'gap' ? block.bytes : (block?.chars ?? 0);
      from += 1;
    }
    if (from > 0) {
      this.chars -= dropped;
      const gap: GapBlock = { kind: 'gap', key: this.next++, bytes, chars: 0 };
      const first = this.blocks[from];
      const rest = this.blocks.slice(first?.kind === 'gap' ? from + 1 : from);
      gap.bytes += first?.kind === 'gap' ? first.bytes : 0;
      this.blocks = [gap, ...rest];
    }
  }
}

function charsOf(runs: readonly Run[]): number {
  return runs.reduce((sum, run) => sum + run.text.length, 0);
}

/** Return the number of lines. Each run starts a new line. */
function linesOf(runs: readonly Run[]): number {
  return runs.reduce((sum, { times }) => sum + times.length, 0);
}

/** Return the length of the text that fits, up to the end of a line if possible. */
function fitting(text: string, lines: number, chars: number): number {
  let end = 0;
  for (let left = lines; left > 0 && chars > 0; left -= 1) {
    const at = text.indexOf('\n', end) + 1;
    const next = at > 0 ? at : text.length;
    if (next > chars) {
      return end > 0 ? end : chars;
    }
    end = next;
  }
  return end;
}
