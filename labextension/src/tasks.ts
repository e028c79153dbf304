// Counts, states and facts of array tasks, from Slurm's IDs. No I/O.
import { duration, isFinal, memory, stateWord, tone, visible } from './format';
import { dotted, numeral } from './language';
import { trans } from './translation';
import type { Job, Row, SweepTasks } from './wire';

/**
 * Return the number of tasks in a listed row: nine in `123_[1-4,7,9-15:2%2]`; null if it is
 * truncated.
 */
export function taskCount(slurmId: string): number | null {
  if (!slurmId.endsWith(']')) {
    return 1;
  }
  const match = /_\[([^\]%]*)(?:%\d+)?\]$/.exec(slurmId);
  return match === null ? null : countOf(match[1] ?? '');
}

/** Most lists of many tasks have no ranges, and are counted whenever news arrives. */
const SINGLE = /^\d+(?:,\d+)*$/;

/** Return the number of tasks in `1-4,7,9-15:2`; null if it is truncated. */
export function countOf(text: string): number | null {
  if (SINGLE.test(text)) {
    return text.split(',').length;
  }
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
  const one = part === '' ? NaN : Number(part);
  if (Number.isInteger(one)) {
    return [one, one, 1]; // most parts of a long list are single numbers
  }
  const range = /^(\d+)(?:-(\d+)(?::(\d+))?)?$/.exec(part);
  const first = Number(range?.[1]);
  return range === null ? null : [first, Number(range[2] ?? first), Number(range[3] ?? 1)];
}

/** Return the index of the task with the Slurm ID `12_3`; null if the ID is not that of a task. */
export function taskNamed(job: Job | undefined, slurmId: string): number | null {
  const [, array, index] = /^(\d+)_(\d+)$/.exec(slurmId) ?? [];
  if (array === undefined) {
    return null;
  }
  const offset = job?.kind === 'sweep' ? job.offsets[array] : undefined;
  return Number(index) + (offset ?? 0);
}

/** Return the index of a listed task. Waiting tasks, such as `12_[5-8]`, come last. */
export function taskNumber({ slurm_id: slurmId }: Pick<Row, 'slurm_id'>): number {
  const id = slurmId ?? '';
  const number = parseInt(id.slice(id.indexOf('_') + 1), 10);
  return Number.isNaN(number) ? Number.MAX_SAFE_INTEGER : number;
}

/** Maximum number of tasks in a menu. */
export const MOST_CHOICES = 2_000;

/** Maximum number of tasks in a grid. Equal to `MOST_TASKS` of wire/job.py. */
const MOST_CELLS = 100_000;

/** Tasks in the order of their indices, and the state of each. */
export interface Cells {
  indices: readonly number[];
  states: readonly string[];
}

/** The tasks of an array, up to the maximum. */
export function cellsOf({ tasks }: Pick<Job, 'tasks'>): Cells {
  const runs: [first: number, last: number, state: string][] = [];
  for (const [state, text] of Object.entries(tasks)) {
    for (const part of text.split(',')) {
      const [first, last, step] = rangeOf(part) ?? [0, -1, 1];
      if (step === 1) {
        runs.push([first, last, state]);
      } else {
        for (let one = first, count = 0; one <= last && count < MOST_CELLS; one += step, count++) {
          runs.push([one, one, state]);
        }
      }
    }
  }
  runs.sort((one, other) => one[0] - other[0]);
  const indices: number[] = [];
  const states: string[] = [];
  for (const [first, last, state] of runs) {
    for (let one = first; one <= last && indices.length < MOST_CELLS; one++) {
      indices.push(one);
      states.push(state);
    }
  }
  return { indices, states };
}

/** Return the tasks in a state; null for all. */
export function cellsIn(cells: Cells, only: string | null): Cells {
  if (only === null) {
    return cells;
  }
  const states = cells.states.filter(state => state === only);
  return { indices: cells.indices.filter((_, at) => cells.states[at] === only), states };
}

/** Return the places of tasks whose state has changed; null if the tasks are different ones. */
export function changesOf(before: Cells, after: Cells): number[] | null {
  const { indices, states } = after;
  if (indices.length !== before.indices.length) {
    return null;
  }
  const changed: number[] = [];
  for (let at = 0; at < indices.length; at++) {
    if (indices[at] !== before.indices[at]) {
      return null;
    }
    if (states[at] !== before.states[at]) {
      changed.push(at);
    }
  }
  return changed;
}

/** Return whether a sweep has failed tasks, which can be submitted again. */
export function canRetry(job: Job | undefined): boolean {
  const { ended, done } = tally(job?.tasks);
  return job?.kind === 'sweep' && ended > done;
}

/** Return the details of a task: parameters, cause of the end, node, run time and memory. */
export function factsOf(details: SweepTasks, task: number): string[] {
  const place = cellsOf(details.job).indices.indexOf(task);
  const of = (tasks: Record<string, string>): string =>
    Object.entries(tasks).find(([, some]) => has(some, task))?.[0] ?? '';
  const [ranS, peakMib] = [details.elapsed_s[place], details.peak_mib[place]];
  const raised = details.failures.find(one => has(one.tasks, task));
  return [
    ...Object.entries(details.params).map(([name, values]) => `${name} = ${values[place] ?? '?'}`),
    raised === undefined ? of(details.reasons) : `${raised.ename}: ${raised.evalue}`,
    dotted([
      of(details.nodes),
      ranS == null ? '' : duration(ranS),
      peakMib == null ? '' : memory(peakMib)
    ])
  ]
    .map(visible)
    .filter(Boolean);
}

function has(tasks: string, task: number): boolean {
  return tasks.split(',').some(part => {
    const [first, last, step] = rangeOf(part) ?? [0, -1, 1];
    return first <= task && task <= last && (task - first) % step === 0;
  });
}

/** The number of ended tasks at a given time. */
export interface Pace {
  ended: number;
  atS: number;
}

/** Return the seconds until all tasks have ended, at the rate since `from`; null if unknown. */
export function leftS({ all, ended }: Tally, from: Pace, nowS: number): number | null {
  const [since, passedS] = [ended - from.ended, nowS - from.atS];
  return since > 0 && passedS > 0 && ended < all ? ((all - ended) * passedS) / since : null;
}

/** The tasks of an array with their states, in the order of their indices. */
export function tasksOf(job: Pick<Job, 'tasks'>): [index: number, state: string][] {
  const { indices, states } = cellsOf(job);
  return indices.map((index, at) => [index, states[at] ?? '']);
}

/** The ranks of a job on many nodes, each with the job's state, up to the maximum. */
export function ranksOf({ state }: Pick<Job, 'state'>, ranks: number): [number, string][] {
  return Array.from({ length: Math.min(ranks, MOST_CHOICES) }, (_, rank) => [rank, state]);
}

export interface Tally {
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
 * Return the progress of an array in words: done tasks, and unfinished tasks by state. A single
 * task is named by its index. [] if it is not an array.
 */
export function progress({ tasks = {} }: Pick<Row, 'tasks'>): string[] {
  const counts = Object.entries(tasks).map(
    ([state, some]) => [state, countOf(some) ?? 0, some] as const
  );
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const done = counts.find(([state]) => state === 'COMPLETED')?.[1] ?? 0;
  return total === 0
    ? []
    : [
        trans.__('%1 of %2 tasks done', numeral(done), numeral(total)),
        ...counts
          .filter(([state]) => state !== 'COMPLETED')
          .map(([state, count, some]) =>
            count === 1 ? trans.__('task %1 %2', some, stateWord(state)) : counted(state, count)
          )
      ];
}

/** `2 failed`. In some languages this word has a plural. */
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
