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

/** Return the number of tasks in `1-4,7,9-15:2`; null if it is truncated. */
export function countOf(text: string): number | null {
  let count = 0;
  const isWhole = eachRange(text, (first, last, step) => {
    count += Math.floor((last - first) / step) + 1;
  });
  return isWhole ? count : null;
}

type StateCounts = readonly [state: string, count: number][];

/** Cached counts for each value of `Job.tasks`, because about ten views count the same value. */
const knownCounts = new WeakMap<Job['tasks'], StateCounts>();

/** Return the number of tasks in each state. */
export function countsOf(tasks: Job['tasks']): StateCounts {
  let counts = knownCounts.get(tasks);
  if (counts === undefined) {
    counts = Object.entries(tasks).map(([state, some]) => [state, countOf(some) ?? 0]);
    knownCounts.set(tasks, counts);
  }
  return counts;
}

const ZERO = '0'.charCodeAt(0);

/**
 * Call `visit` with each range of `1-4,7,9-15:2`. Return false at other text, such as the end of a
 * truncated list. Views read lists of thousands of tasks at each change, so this creates no objects.
 */
function eachRange(
  text: string,
  visit: (first: number, last: number, step: number) => void
): boolean {
  let first = 0;
  let last = 0;
  let number = -1;
  let before = ',';
  for (let at = 0; at <= text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO;
    if (digit >= 0 && digit <= 9) {
      number = Math.max(0, number) * 10 + digit;
      continue;
    }
    const sign = text[at] ?? ',';
    if (number < 0) {
      return false;
    } else if (sign === ',') {
      const isStep = before === ':';
      visit(before === ',' ? number : first, isStep ? last : number, isStep ? number : 1);
    } else if (sign === '-' && before === ',') {
      first = number;
    } else if (sign === ':' && before === '-') {
      last = number;
    } else {
      return false;
    }
    number = -1;
    before = sign;
  }
  return true;
}

/** Return the index of the task with the Slurm ID `12_3`; null if the ID does not name a task. */
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

/** The tasks of an array, up to the maximum. The sorted lists of the states are merged. */
export function cellsOf({ tasks }: Pick<Job, 'tasks'>): Cells {
  const lists = Object.entries(tasks).map(([state, text]) => ({ state, all: listOf(text), at: 0 }));
  const indices: number[] = [];
  const states: string[] = [];
  while (indices.length < MOST_CELLS) {
    let first = Infinity;
    let of = lists[0];
    for (const list of lists) {
      const one = list.all[list.at] ?? Infinity;
      if (one < first) {
        first = one;
        of = list;
      }
    }
    if (of === undefined || first === Infinity) {
      break;
    }
    of.at += 1;
    indices.push(first);
    states.push(of.state);
  }
  return { indices, states };
}

/** Return the indices in `1-4,7,9-15:2`, up to the maximum. */
function listOf(text: string): number[] {
  const found: number[] = [];
  eachRange(text, (first, last, step) => {
    for (let one = first; one <= last && found.length < MOST_CELLS; one += step) {
      found.push(one);
    }
  });
  return found;
}

/** Return the tasks in a state; null for all. */
export function cellsIn(cells: Cells, only: string | null): Cells {
  if (only === null) {
    return cells;
  }
  const states = cells.states.filter(state => state === only);
  return { indices: cells.indices.filter((_, at) => cells.states[at] === only), states };
}

/** Return the places of tasks whose state has changed; null if the lists have different tasks. */
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
  let isFound = false;
  eachRange(tasks, (first, last, step) => {
    isFound ||= first <= task && task <= last && (task - first) % step === 0;
  });
  return isFound;
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
  for (const [state, count] of countsOf(tasks)) {
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
  const counts = countsOf(tasks);
  const { all, done } = tally(tasks);
  return all === 0
    ? []
    : [
        trans.__('%1 of %2 tasks done', numeral(done), numeral(all)),
        ...counts
          .filter(([state]) => state !== 'COMPLETED')
          .map(([state, count]) =>
            count === 1
              ? trans.__('task %1 %2', tasks[state] ?? '', stateWord(state))
              : counted(state, count)
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
