// The lines of the sidebar: heads of groups, notebooks with several jobs of one day, jobs, and the
// tasks of arrays. Pure: no DOM, no clock.
import { live, type Counts } from '../counts';
import { countsOf, dayOf, endedTasks, isArray, RUNNING, WAITING, type JobRow } from './rows';

export type Line =
  | { kind: 'group'; key: string; group: string; count: number; open: boolean }
  | { kind: 'notebook'; key: string; path: string; rows: readonly JobRow[]; open: boolean }
  /** `open`: whether its tasks are shown; null: it has none. */
  | { kind: 'job'; key: string; row: JobRow; level: number; open: boolean | null };

/** So many jobs of a day that one notebook has submitted become one line. */
const MANY = 3;

/** Tells whether the rows below this one are shown. */
type Open = (key: string, kind: Line['kind']) => boolean;

export function linesOf(groups: ReadonlyMap<string, readonly JobRow[]>, open: Open): Line[] {
  const lines: Line[] = [];
  const count = counter(groups);
  for (const group of inOrder(groups.keys())) {
    const rows = groups.get(group) ?? [];
    const isOpen = open(group, 'group');
    lines.push({ kind: 'group', key: group, group, count: count(group), open: isOpen });
    if (isOpen && (group === RUNNING || group === WAITING)) {
      addJobs(lines, rows, 2, open);
    } else if (isOpen) {
      addByNotebook(lines, group, rows, open);
    }
  }
  return lines;
}

/**
 * How many jobs a head tells of. Of an array that runs, tasks that wait are counted as waiting,
 * though the array is one row among those that run.
 */
function counter(groups: ReadonlyMap<string, readonly JobRow[]>): (group: string) => number {
  const rows = (group: string): readonly JobRow[] => groups.get(group) ?? [];
  const { running, waiting } = live(countsOf([...rows(RUNNING), ...rows(WAITING)]));
  return group =>
    group === RUNNING ? running : group === WAITING ? waiting : all(countsOf(rows(group)));
}

function all(counts: Counts): number {
  return [...counts.values()].reduce((sum, one) => sum + one, 0);
}

export function levelOf(line: Line): number {
  return line.kind === 'job' ? line.level : line.kind === 'notebook' ? 2 : 1;
}

/** The groups that are open to begin with. */
export function firstOpen(nowS: number): readonly string[] {
  return [RUNNING, WAITING, dayOf(nowS)];
}

/** Running, waiting, then the days, the last one first. */
function inOrder(groups: Iterable<string>): string[] {
  const all = new Set(groups);
  const days = [...all].filter(one => one !== RUNNING && one !== WAITING).sort();
  return [...[RUNNING, WAITING].filter(one => all.has(one)), ...days.reverse()];
}

/** A notebook's line is where its newest job would be. */
function addByNotebook(lines: Line[], group: string, rows: readonly JobRow[], open: Open): void {
  const notebooks = new Map<string, JobRow[]>();
  for (const row of rows) {
    if (row.notebook !== null) {
      const some = notebooks.get(row.notebook) ?? [];
      some.push(row);
      notebooks.set(row.notebook, some);
    }
  }
  for (const row of rows) {
    const path = row.notebook ?? '';
    const some = notebooks.get(path) ?? [];
    if (some.length < MANY) {
      addJobs(lines, [row], 2, open);
    } else if (some[0] === row) {
      const key = `${group}\n${path}`;
      const isOpen = open(key, 'notebook');
      lines.push({ kind: 'notebook', key, path, rows: some, open: isOpen });
      if (isOpen) {
        addJobs(lines, some, 3, open);
      }
    }
  }
}

function addJobs(lines: Line[], rows: readonly JobRow[], level: number, open: Open): void {
  for (const row of rows) {
    const isOpen = isArray(row) ? open(row.key, 'job') : null;
    lines.push({ kind: 'job', key: row.key, row, level, open: isOpen });
    if (isOpen === true) {
      addJobs(lines, [...row.tasks, ...endedTasks(row)], level + 1, open);
    }
  }
}
