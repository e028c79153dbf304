// The matches of a text in a log, cached by block. No I/O.
import { plain } from './terminal';
import { runsOf, type Block, type Run, type Wanted } from './output';

/** The starts of the matches in each run. */
export interface Found {
  runs: readonly (readonly number[])[];
  count: number;
}

const NONE: Found = { runs: [], count: 0 };

interface Match {
  /** The key of the block. */
  key: number;
  /** The number of the match in the block. */
  at: number;
}

export class Search {
  private readonly pattern: RegExp | null;
  private readonly known = new WeakMap<Block, Found>();

  /** Find a text, ignoring case. `''` matches nothing. */
  constructor(
    readonly text: string,
    private readonly wanted: Wanted
  ) {
    this.pattern = text === '' ? null : new RegExp(escaped(text), 'giu');
  }

  in(block: Block): Found {
    if (this.pattern === null || block.kind !== 'text') {
      return NONE;
    }
    let found = this.known.get(block);
    if (found === undefined) {
      const runs = runsOf(block, this.wanted).map(run => this.starts(run));
      found = { runs, count: runs.reduce((sum, one) => sum + one.length, 0) };
      this.known.set(block, found);
    }
    return found;
  }

  count(blocks: readonly Block[]): number {
    return blocks.reduce((sum, block) => sum + this.in(block).count, 0);
  }

  /** Return the match with this number, from 0. */
  match(blocks: readonly Block[], number: number): Match | null {
    let before = 0;
    for (const block of blocks) {
      const { count } = this.in(block);
      if (number < before + count) {
        return { key: block.key, at: number - before };
      }
      before += count;
    }
    return null;
  }

  private starts(run: Run): number[] {
    const { pattern } = this;
    return pattern === null ? [] : [...plain(run.text).matchAll(pattern)].map(one => one.index);
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
