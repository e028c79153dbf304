// The grouping, sorting and folding of this user's jobs into the sidebar's lines. Heads, notebooks
// with several jobs of one day, and arrays unfold. No DOM, no clock, no model.
import type { Target } from '../commands/targets';
import { countRows, live, type Counts } from '../counts';
import { isFinal, isHeld, isRunning } from '../format';
import { keyOf, slurmKey } from '../model/rows';
import { taskNumber, tasksOf } from '../tasks';
import type { ListedJob, Row } from '../wire';

/** The groups of unfinished jobs. Ended jobs are grouped by `dayOf`. */
export const RUNNING = 'running';
export const WAITING = 'waiting';

/** The listed jobs. */
export interface Listing {
  /** The jobs by group, sorted. */
  groups: ReadonlyMap<string, readonly Row[]>;
  /** The listed tasks of each array, by its key. */
  tasks: ReadonlyMap<string, readonly ListedJob[]>;
  /** Returns the current key for the key of a row without a record. */
  keyNow: (key: string) => string;
}

export function listingOf(rows: Iterable<Row>): Listing {
  const groups = new Map<string, Row[]>();
  const tasks = new Map<string, ListedJob[]>();
  const recorded = new Map<string, string>();
  const keys = new Set<string>();
  for (const row of rows) {
    keys.add(keyOf(row));
    if (row.kind === 'listed' && row.array != null) {
      put(tasks, row.array, row);
    } else {
      put(groups, groupOf(row), row);
    }
    if (row.kind !== 'listed' && (!isFinal(row.state) || !recorded.has(slurmKey(row)))) {
      recorded.set(slurmKey(row), row.id);
    }
  }
  groups.forEach((some, group) => some.sort(group === WAITING ? soonestFirst : newestFirst));
  tasks.forEach(some => some.sort((one, other) => taskNumber(one) - taskNumber(other)));
  return { groups, tasks, keyNow: key => (keys.has(key) ? key : (recorded.get(key) ?? key)) };
}

function put<T>(found: Map<string, T[]>, key: string, value: T): void {
  const some = found.get(key);
  if (some === undefined) {
    found.set(key, [value]);
  } else {
    some.push(value);
  }
}

function groupOf(row: Row): string {
  if (isFinal(row.state)) {
    return dayOf(timeOf(row));
  }
  return isRunning(row.state) ? RUNNING : WAITING;
}

/** Return the local day of a moment: `2026-11-27`. */
export function dayOf(atS: number): string {
  const at = new Date(atS * 1000);
  const two = (part: number): string => String(part).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** Return the time of the end, or else of the submission. */
export function timeOf(row: Row): number {
  return row.ended_s ?? (row.kind === 'listed' ? row.submitted_s : row.created_s) ?? 0;
}

function newestFirst(one: Row, other: Row): number {
  return timeOf(other) - timeOf(one) || idOf(other) - idOf(one);
}

/** Compare by expected start, then priority. Jobs on hold come last. */
function soonestFirst(one: Row, other: Row): number {
  return (
    Number(isHeld(one.state, one.reason)) - Number(isHeld(other.state, other.reason)) ||
    startOf(one) - startOf(other) ||
    (other.priority ?? 0) - (one.priority ?? 0) ||
    idOf(one) - idOf(other)
  );
}

/** Return the expected start. Unknown times are equal, and come last. */
function startOf({ start_estimate_s: startS }: Row): number {
  return startS ?? Number.MAX_SAFE_INTEGER;
}

/** Compare jobs submitted in the same second. */
function idOf({ slurm_id: slurmId }: Row): number {
  return parseInt(slurmId ?? '0', 10);
}

/** Return the row as a command's target. */
export function targetOf({ cluster, id, slurm_id, name, state }: Row): Target {
  return { cluster, id: id ?? null, slurm_id: slurm_id ?? null, name, state };
}

/**
 * Return the tasks of an array that have left the queue. If there are many, return the first ones.
 */
function endedTasks(array: Row): ListedJob[] {
  const { cluster, name, slurm_id: slurmId, id } = array;
  const ended = tasksOf({ tasks: array.tasks ?? {} }).filter(([, state]) => isFinal(state));
  return ended.map(([index, state]) => ({
    ...{ kind: 'listed', cluster, name, state, id: id ?? null, mine: true },
    slurm_id: `${slurmId ?? ''}_${index}`,
    array: keyOf(array)
  }));
}

/** Return the rows that have every word in name, IDs, state, node, cluster or reason. */
export function matching(list: readonly Row[], words: string): readonly Row[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) {
    return list;
  }
  return list.filter(row => {
    const text = [row.name, row.id, row.slurm_id, row.state, row.nodes, row.cluster, row.why]
      .join(' ')
      .toLowerCase();
    return wanted.every(word => text.includes(word));
  });
}

export type Line =
  | { kind: 'group'; key: string; group: string; count: number; open: boolean }
  | { kind: 'notebook'; key: string; path: string; rows: readonly Row[]; open: boolean }
  /** `open` is true if its tasks are shown, and null if it has none. */
  | { kind: 'job'; key: string; row: Row; level: number; open: boolean | null };

/** Jobs of one notebook and day, which become one line. */
const MANY = 3;

/** Return whether the rows below this one are shown. */
type Open = (key: string, kind: Line['kind']) => boolean;

type Groups = ReadonlyMap<string, readonly Row[]>;
/** The listed tasks of each array, by its key. */
type Tasks = ReadonlyMap<string, readonly ListedJob[]>;

export function linesOf(groups: Groups, tasks: Tasks, open: Open): Line[] {
  const lines: Line[] = [];
  const count = counter(groups);
  for (const group of inOrder(groups.keys())) {
    const rows = groups.get(group) ?? [];
    const isOpen = open(group, 'group');
    lines.push({ kind: 'group', key: group, group, count: count(group), open: isOpen });
    if (isOpen && (group === RUNNING || group === WAITING)) {
      addJobs(lines, rows, 2, tasks, open);
    } else if (isOpen) {
      addByNotebook(lines, group, rows, tasks, open);
    }
  }
  return lines;
}

/**
 * The count of jobs at a head. Waiting tasks of a running array count as waiting, although the
 * array is one of the running rows.
 */
function counter(groups: Groups): (group: string) => number {
  const rows = (group: string): readonly Row[] => groups.get(group) ?? [];
  const { running, waiting } = live(countRows([...rows(RUNNING), ...rows(WAITING)]));
  return group =>
    group === RUNNING ? running : group === WAITING ? waiting : all(countRows(rows(group)));
}

function all(counts: Counts): number {
  return [...counts.values()].reduce((sum, one) => sum + one, 0);
}

export function levelOf(line: Line): number {
  return line.kind === 'job' ? line.level : line.kind === 'notebook' ? 2 : 1;
}

/** The groups that are open by default. */
export function firstOpen(nowS: number): readonly string[] {
  return [RUNNING, WAITING, dayOf(nowS)];
}

/** Compare groups: running, waiting, then the days, the latest first. */
function inOrder(groups: Iterable<string>): string[] {
  const all = new Set(groups);
  const days = [...all].filter(one => one !== RUNNING && one !== WAITING).sort();
  return [...[RUNNING, WAITING].filter(one => all.has(one)), ...days.reverse()];
}

/** The line of a notebook replaces its newest job. */
function addByNotebook(
  lines: Line[],
  group: string,
  rows: readonly Row[],
  tasks: Tasks,
  open: Open
): void {
  const notebooks = new Map<string, Row[]>();
  for (const row of rows) {
    const path = notebookOf(row);
    if (path !== null) {
      const some = notebooks.get(path) ?? [];
      some.push(row);
      notebooks.set(path, some);
    }
  }
  for (const row of rows) {
    const path = notebookOf(row) ?? '';
    const some = notebooks.get(path) ?? [];
    if (some.length < MANY) {
      addJobs(lines, [row], 2, tasks, open);
    } else if (some[0] === row) {
      const key = `${group}\n${path}`;
      const isOpen = open(key, 'notebook');
      lines.push({ kind: 'notebook', key, path, rows: some, open: isOpen });
      if (isOpen) {
        addJobs(lines, some, 3, tasks, open);
      }
    }
  }
}

function notebookOf(row: Row): string | null {
  return row.kind === 'listed' ? null : row.notebook;
}

function addJobs(
  lines: Line[],
  rows: readonly Row[],
  level: number,
  tasks: Tasks,
  open: Open
): void {
  for (const row of rows) {
    const key = keyOf(row);
    const listed = tasks.get(key) ?? [];
    const isArray = listed.length > 0 || Object.keys(row.tasks ?? {}).length > 0;
    const isOpen = isArray ? open(key, 'job') : null;
    lines.push({ kind: 'job', key, row, level, open: isOpen });
    if (isOpen === true) {
      addJobs(lines, [...listed, ...endedTasks(row)], level + 1, tasks, open);
    }
  }
}
