// How many tasks of an array an id of Slurm's stands for, and how those of one are. Pure.
import { isFinal, stateWord, tone } from './format';
import { numeral } from './language';
import { trans } from './translation';
import type { Job, Row } from './wire';

/** How many tasks a listed row stands for: `123_[1-4,7,9-15:2%2]` for nine. null: it was cut. */
export function taskCount(slurmId: string): number | null {
  if (!slurmId.endsWith(']')) {
    return 1;
  }
  const match = /_\[([^\]%]*)(?:%\d+)?\]$/.exec(slurmId);
  return match === null ? null : countOf(match[1] ?? '');
}

/** How many `1-4,7,9-15:2` are; null: it was cut. */
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

/** The index of a listed task; those that wait, `12_[5-8]`, are the last. */
export function taskNumber({ slurm_id: slurmId }: Pick<Row, 'slurm_id'>): number {
  const id = slurmId ?? '';
  const number = parseInt(id.slice(id.indexOf('_') + 1), 10);
  return Number.isNaN(number) ? Number.MAX_SAFE_INTEGER : number;
}

/** So many can be chosen from. */
const MOST = 2_000;

/** The tasks of an array with their states, in the order of their indices: the first of many. */
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

/** The ranks of a job on many nodes, each in the job's own state: the first of many. */
export function ranksOf({ state }: Pick<Job, 'state'>, ranks: number): [number, string][] {
  return Array.from({ length: Math.min(ranks, MOST) }, (_, rank) => [rank, state]);
}

interface Tally {
  all: number;
  ended: number;
  /** Of the ended ones. */
  done: number;
  failed: number;
}

/** How many tasks there are, have ended, and have ended how. */
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
 * How far an array is, in words: how many are done, how many are not, and of one which. [] for what
 * is none.
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

/** `2 failed`: in some languages the word is another one of several. */
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
