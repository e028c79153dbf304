// My jobs as the sidebar lists them: ours and those that only Slurm knows, put together, and what
// comes first. Pure: no DOM, no clock, no model.
import type { Target } from '../commands/targets';
import { addEntry as count, addJob, type Counts } from '../counts';
import { isFinal, isHeld, isRunning, sessionOf, tone } from '../format';
import { tasksOf } from '../tasks';
import type { Job, QueueEntry } from '../wire';

/** A row of the list. What is null is not known, or does not apply. */
export interface JobRow {
  /** Of this row, as long as the job is there. */
  key: string;
  cluster: string;
  /** Ours; null: only Slurm knows the job. */
  id: string | null;
  slurmId: string | null;
  name: string;
  state: string;
  job: Job | null;
  submittedS: number | null;
  startedS: number | null;
  endedS: number | null;
  limitS: number | null;
  nodes: string | null;
  gpus: number;
  /** The mean of its GPUs, 0 to 1. */
  gpuLoad: number | null;
  /** Slurm's word for why it waits, and that in a sentence. */
  reason: string;
  why: string | null;
  startEstimateS: number | null;
  /** When it ended, else when it came. */
  atS: number;
  /** As Slurm has it: the greater, the sooner. */
  priority: number;
  /** The path of the notebook that it came from. */
  notebook: string | null;
  /** Waits because somebody said so. */
  held: boolean;
  /** Tasks of an array that Slurm lists; those that wait may be many in one. */
  tasks: JobRow[];
  /** Its cell runs in a session. */
  inSession: boolean;
}

/** The groups of jobs that have not ended; those that have are grouped by `dayOf`. */
export const RUNNING = 'running';
export const WAITING = 'waiting';

/** What is known of the jobs that one id of Slurm's stands for, from each source. */
interface Sources {
  jobs: Iterable<Job>;
  /** Of the queue. */
  entries: Iterable<QueueEntry>;
  /** Those that have ended. */
  past: Iterable<QueueEntry>;
}

export function groupOf(row: JobRow): string {
  if (isFinal(row.state)) {
    return dayOf(row.endedS ?? row.atS);
  }
  return isRunning(row.state) || row.tasks.some(task => isRunning(task.state)) ? RUNNING : WAITING;
}

/** The local day of a moment: `2026-11-27`. */
export function dayOf(atS: number): string {
  const at = new Date(atS * 1000);
  const two = (part: number): string => String(part).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** What comes first in its group: of those that wait the next to start, else the newest. */
export function compare(one: JobRow, other: JobRow): number {
  const waits = !isFinal(one.state) && groupOf(one) === WAITING;
  return waits
    ? Number(one.held) - Number(other.held) ||
        soonest(one) - soonest(other) ||
        other.priority - one.priority ||
        idOf(one) - idOf(other)
    : other.atS - one.atS || idOf(other) - idOf(one);
}

/** A number always: two that are not known are alike. */
function soonest({ startEstimateS }: JobRow): number {
  return startEstimateS ?? Number.MAX_SAFE_INTEGER;
}

/** Of two that Slurm got in the same second the later has the greater id. */
function idOf({ slurmId }: JobRow): number {
  return parseInt(slurmId ?? '0', 10);
}

/** The rows of what has one id of Slurm's: several where Slurm has given it out anew. */
export function rowsOf(cluster: string, { jobs, entries, past }: Sources): JobRow[] {
  const found = new Map<string, JobRow>();
  for (const job of jobs) {
    const key = keyOf(job.cluster, job.slurm_id ?? job.id);
    if (found.has(key) && isFinal(job.state)) {
      found.set(job.id, rowOfJob(job));
    } else {
      giveWay(found, key);
      found.set(key, rowOfJob(job));
    }
  }
  for (const entry of inOrder(entries)) {
    addEntry(found, cluster, entry);
  }
  const present = new Set(found.keys());
  for (const entry of inOrder(past)) {
    const key = keyOf(cluster, entry.array_id ?? entry.slurm_id);
    // The queue and our own record know more of a job than what is told of its end.
    if (entry.id == null && !present.has(key)) {
      addEntry(found, cluster, entry);
    } else if (entry.array_id != null) {
      goOn(found.get(key), entry);
    }
  }
  return [...found.values()];
}

/** An array of which a task has run is running until its last one ends, as one of ours is. */
function goOn(array: JobRow | undefined, { state, ended_s: endedS }: QueueEntry): void {
  if (array?.job === null && array.state === 'PENDING' && !array.held) {
    const isOfThisOne = (endedS ?? 0) >= (array.submittedS ?? 0);
    array.state = isOfThisOne && state !== 'CANCELLED' ? 'RUNNING' : array.state;
  }
}

/** By task; those that still wait, `12_[5-8]`, are last. Each once, as it was told of first. */
function inOrder(entries: Iterable<QueueEntry>): QueueEntry[] {
  const found = new Map<string, QueueEntry>();
  for (const entry of entries) {
    if (!found.has(entry.slurm_id)) {
      found.set(entry.slurm_id, entry);
    }
  }
  const task = ({ slurm_id: id }: QueueEntry): number => {
    const number = parseInt(id.slice(id.indexOf('_') + 1), 10);
    return Number.isNaN(number) ? Number.MAX_SAFE_INTEGER : number;
  };
  return [...found.values()].sort((one, other) => task(one) - task(other));
}

/** Slurm gives out its ids anew when it has lost its state: who has ended leaves its own. */
function giveWay(found: Map<string, JobRow>, key: string): void {
  const before = found.get(key);
  if (before !== undefined) {
    found.delete(key);
    found.set(before.key, before);
  }
}

function addEntry(found: Map<string, JobRow>, cluster: string, entry: QueueEntry): void {
  const key = keyOf(cluster, entry.array_id ?? entry.slurm_id);
  const job = found.get(key)?.job ?? null;
  if (job !== null && isFinal(job.state) && entry.id !== job.id) {
    giveWay(found, key);
  }
  const parent = found.get(key);
  const row = rowOfEntry(cluster, entry);
  if (parent !== undefined) {
    parent.priority = row.priority;
    parent.gpuLoad = row.gpuLoad;
  }
  if (entry.array_id == null) {
    if (parent === undefined) {
      found.set(key, row);
    }
  } else if (parent === undefined) {
    found.set(key, { ...row, key, slurmId: entry.array_id, tasks: [row] });
  } else {
    parent.tasks.push(row);
    if (parent.job === null) {
      tellOfAll(parent);
    }
  }
}

/** How much a task's state says of its array: what goes on first, and then what went wrong. */
function weight({ state }: JobRow): number {
  const weights = [
    isRunning(state),
    !isFinal(state),
    tone(state) === 'failed',
    state !== 'COMPLETED'
  ];
  return weights.includes(true) ? weights.indexOf(true) : weights.length;
}

/** An array that only Slurm knows is what the task is that says most of it. */
function tellOfAll(array: JobRow): void {
  if (array.tasks.length > 0) {
    const most = array.tasks.reduce((one, other) => (weight(other) < weight(one) ? other : one));
    const { state, startedS, nodes, reason, why, held, startEstimateS } = most;
    Object.assign(array, { state, startedS, nodes, reason, why, held, startEstimateS });
    if (isFinal(state)) {
      array.startedS = utmost(array.tasks, 'startedS', Math.min);
      array.endedS = utmost(array.tasks, 'endedS', Math.max);
    }
    array.gpus = array.tasks.reduce(
      (sum, task) => sum + (isRunning(task.state) ? task.gpus : 0),
      0
    );
  }
}

function utmost(
  tasks: readonly JobRow[],
  field: 'startedS' | 'endedS',
  better: (one: number, other: number) => number
): number | null {
  return tasks.reduce<number | null>((found, { [field]: at }) => {
    return at === null ? found : better(found ?? at, at);
  }, null);
}

/** How many jobs the rows stand for, by state; a task is a job. */
export function countsOf(rows: Iterable<JobRow>): Counts {
  const counts: Counts = new Map();
  for (const { job, state, slurmId, tasks } of rows) {
    if (job !== null) {
      addJob(counts, job);
    } else if (tasks.length > 0) {
      tasks.forEach(task => count(counts, { state: task.state, slurm_id: task.slurmId ?? '' }));
    } else {
      count(counts, { state, slurm_id: slurmId ?? '' });
    }
  }
  return counts;
}

/** What a command is told of it. */
export function targetOf({ cluster, id, slurmId, name, state }: JobRow): Target {
  return { cluster, id, slurm_id: slurmId, name, state };
}

export function keyOf(cluster: string, id: string): string {
  return `${cluster}\n${id}`;
}

export function rowOfJob(job: Job): JobRow {
  return {
    key: job.id,
    cluster: job.cluster,
    id: job.id,
    slurmId: job.slurm_id,
    name: job.name,
    state: job.state,
    job,
    submittedS: job.submitted_s ?? job.created_s,
    startedS: job.started_s,
    endedS: job.ended_s,
    limitS: job.limit_s,
    nodes: job.nodes.length > 0 ? job.nodes.join(', ') : null,
    gpus: job.gpus,
    gpuLoad: null,
    reason: job.reason ?? '',
    why: job.state === 'COMPLETED' ? null : job.why,
    startEstimateS: isFinal(job.state) ? null : job.start_estimate_s,
    atS: job.ended_s ?? job.created_s,
    priority: 0,
    notebook: job.notebook,
    held: isHeld(job.state, job.reason),
    tasks: [],
    inSession: sessionOf(job) !== null
  };
}

/** Returns the tasks of an array that have left the queue, the first ones if there are many. */
export function endedTasks(array: JobRow): JobRow[] {
  const { job, key, slurmId } = array;
  const ended = job === null ? [] : tasksOf(job).filter(([, state]) => isFinal(state));
  const unknown = { startedS: null, endedS: null, nodes: null, why: null, startEstimateS: null };
  return ended.map(([index, state]) => ({
    ...array,
    ...unknown,
    key: `${key}_${index}`,
    slurmId: `${slurmId ?? ''}_${index}`,
    state,
    job: null,
    tasks: []
  }));
}

/** Tells whether the job has tasks, in the queue or ended. */
export function isArray({ job, tasks }: JobRow): boolean {
  return tasks.length > 0 || Object.keys(job?.tasks ?? {}).length > 0;
}

function rowOfEntry(cluster: string, entry: QueueEntry): JobRow {
  return {
    key: keyOf(cluster, entry.slurm_id),
    cluster,
    id: entry.id ?? null,
    slurmId: entry.slurm_id,
    name: entry.name,
    state: entry.state,
    job: null,
    submittedS: entry.submitted_s ?? null,
    startedS: entry.started_s ?? null,
    endedS: entry.ended_s ?? null,
    limitS: entry.limit_s ?? null,
    nodes: entry.nodes ?? null,
    gpus: entry.gpus ?? 0,
    gpuLoad: entry.gpu_load ?? null,
    reason: entry.reason ?? '',
    why: entry.why ?? null,
    startEstimateS: entry.start_estimate_s ?? null,
    atS: entry.ended_s ?? entry.submitted_s ?? 0,
    priority: entry.priority ?? 0,
    notebook: null,
    held: isHeld(entry.state, entry.reason),
    tasks: [],
    inSession: false
  };
}

/** Those in which every word is found: in name, ids, state, node, cluster or reason. */
export function matching(list: readonly JobRow[], words: string): readonly JobRow[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) {
    return list;
  }
  return list.filter(row => {
    const text = [row.name, row.id, row.slurmId, row.state, row.nodes, row.cluster, row.why]
      .join(' ')
      .toLowerCase();
    return wanted.every(word => text.includes(word));
  });
}
