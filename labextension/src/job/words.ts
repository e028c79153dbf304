// Sizes and languages for the job panel. No I/O.
import { decimal } from '../language';
import type { Job } from '../wire';

/** Format a size: `812 bytes`, `34 kB`, `1.2 MB`. */
export function bytes(count: number): string {
  if (count < 1_000) {
    return `${count} bytes`;
  }
  return count < 1_000_000
    ? `${Math.ceil(count / 1_000)} kB`
    : `${decimal(count / 1_000_000, count < 10_000_000 ? 1 : 0)} MB`;
}

const PYTHON_KINDS: readonly Job['kind'][] = ['cell', 'sweep', 'session'];

/** Return the language of the code, by its first line or the kind of its job. */
export function languageOf(code: string, kind: Job['kind']): 'python' | 'shell' | 'text' {
  const first = /^#!.*/.exec(code)?.[0] ?? '';
  if (/\bpython/.test(first)) {
    return 'python';
  }
  if (/sh\b/.test(first) || kind === 'script') {
    return 'shell';
  }
  return first !== '' ? 'text' : PYTHON_KINDS.includes(kind) ? 'python' : 'shell';
}
