// Counts and states of array tasks, from Slurm's IDs. Pure.
import { isFinal, stateWord, tone } from './format';
import { numeral } from './language';
import { trans } from './translation';
import type { Job, Row } from './wire';

/** The number of tasks in a listed row: nine in `123_[1-4,7,9-15:2%2]`. null: truncated. */
export function taskCount(slurmId: string): number | null {
  if (!slurmId.endsWith(']')) {
    return 1;
  }
  const match = /_\[([^\]%]*)(?:%\d+)?\]$/.exec(slurmId);
  return match === null ? null : countOf(match[1] ?? '');
}

/** The number of tasks in `1-4,7,9-15:2`; null: truncated. */
export function countOf(text: string): number | null {
  let count = 0;
  for (const part of text.split(',')) {
    const range = rangeOf(part);
    if (range === null) {
      return null;
    }
    const [first, last, step] = range;
    count += Math.floor((last - first) / step) + 1;
  }
  return count;
}

function rangeOf(part: string): [first: number, last: number, step: number] | null {
  const range = /^(\d+)(?:-(\d+)(?::(\d+))?)?$/.exec(part);
  const first = Number(range?.[1]);
  return range === null ? null : [first, Number(range[2] ?? first), Number(range[3] ?? 1)];
}

/** The index of a listed task; waiting ones, `12_[5-8]`, come last. */
export function taskNumber({ slurm_id: slurmId }: Pick<Row, 'slurm_id'>): number {
  const id = slurmId ?? '';
  const number = parseInt(id.slice(id.indexOf('_') + 1), 10);
  return Number.isNaN(number) ? Number.MAX_SAFE_INTEGER : number;
}

/** Maximum number of listed tasks. */
const MOST = 2_000;

/** The tasks of an array with their states, by index, up to the maximum. */
export function tasksOf({ tasks }: Pick<Job, 'tasks'>): [index: number, state: string][] {
  const found: [number, string][] = [];
  for (const [state, text] of Object.entries(tasks)) {
    for (const part of text.split(',')) {
      const [first, last, step] = rangeOf(part) ?? [0, -1, 1];
      for (let index = first, count = 0; index <= last && count < MOST; index += step, count++) {
        found.push([index, state]);
      }
    }
  }
  return found.sort(([one], [other]) => one - other).slice(0, MOST);
}

/** The ranks of a job on many nodes, each with the job's state, up to the maximum. */
export function ranksOf({ state }: Pick<Job, 'state'>, ranks: number): [number, string][] {
  return Array.from({ length: Math.min(ranks, MOST) }, (_, rank) => [rank, state]);
}

interface Tally {
  all: number;
  ended: number;
  /** The number of ended tasks. */
  done: number;
  failed: number;
}

/** The counts of tasks: all, ended, and by final state. */
export function tally(tasks: Job['tasks'] = {}): Tally {
  const sum = { all: 0, ended: 0, done: 0, failed: 0 };
  for (const [state, some] of Object.entries(tasks)) {
    const count = countOf(some) ?? 0;
    sum.all += count;
    sum.ended += isFinal(state) ? count : 0;
    sum.done += state === 'COMPLETED' ? count : 0;
    sum.failed += tone(state) === 'failed' ? count : 0;
  }
  return sum;
}

/**
 * The progress of an array in words: done tasks, and unfinished ones by state; a single one by its
 * index. []: not an array.
 */
export function progress({ tasks = {} }: Pick<Row, 'tasks'>): string[] {
  const states = Object.entries(tasks);
  const count = (some: string | undefined): number => (some ? (countOf(some) ?? 0) : 0);
  const total = states.reduce((sum, [, some]) => sum + count(some), 0);
  return total === 0
    ? []
    : [
        trans.__('%1 of %2 tasks done', numeral(count(tasks.COMPLETED)), numeral(total)),
        ...states
          .filter(([state]) => state !== 'COMPLETED')
          .map(([state, some]) => {
            const many = count(some);
            return many === 1
              ? trans.__('task %1 %2', some, stateWord(state))
              : counted(state, many);
          })
      ];
}

/** `2 failed`: in some languages the word has a plural. */
export function counted(state: string, many: number): string {
  const count = numeral(many);
  switch (state) {
    case 'RUNNING':
      return trans._n('%2 running', '%2 running', many, count);
    case 'PENDING':
      return trans._n('%2 waiting', '%2 waiting', many, count);
    case 'FAILED':
      return trans._n('%2 failed', '%2 failed', many, count);
    case 'CANCELLED':
      return trans._n('%2 cancelled', '%2 cancelled', many, count);
    default:
      return `${count} ${stateWord(state)}`;
  }
}
