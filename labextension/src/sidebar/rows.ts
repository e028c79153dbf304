// My jobs as the sidebar lists them: ours and those that only Slurm knows, put together and grouped.
// Pure: no DOM, no clock, no model.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Target } from '../commands/targets';
import { isFinal, isRunning, sessionOf } from '../format';
import { said, type Text } from '../messages';
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
  why: Text | null;
  startEstimateS: number | null;
  /** What the list is sorted by. */
  atS: number;
  /** Waits because somebody said so. */
  held: boolean;
  /** Tasks of an array that Slurm lists; those that wait may be many in one. */
  tasks: JobRow[];
  /** Its cell runs in a session. */
  inSession: boolean;
}

export type GroupName = 'running' | 'waiting' | 'today' | 'earlier';
export const GROUPS: readonly GroupName[] = ['running', 'waiting', 'today', 'earlier'];

export type Groups = Record<GroupName, JobRow[]>;

export type Entries = ReadonlyMap<string, Iterable<QueueEntry>>;

/** `queues`: this user's entries of each cluster that is looked at; `past`: those of accounting. */
export function grouped(jobs: Iterable<Job>, queues: Entries, past: Entries, nowS: number): Groups {
  const groups: Groups = { running: [], waiting: [], today: [], earlier: [] };
  const midnightS = new Date(nowS * 1000).setHours(0, 0, 0, 0) / 1000;
  for (const row of rows(jobs, queues, past)) {
    groups[groupOf(row, midnightS)].push(row);
  }
  for (const name of GROUPS) {
    groups[name].sort((one, other) => other.atS - one.atS || idOf(other) - idOf(one));
  }
  return groups;
}

/** Of two that Slurm got in the same second the later has the greater id. */
function idOf({ slurmId }: JobRow): number {
  return parseInt(slurmId ?? '0', 10);
}

function groupOf(row: JobRow, midnightS: number): GroupName {
  if (isFinal(row.state)) {
    return (row.endedS ?? row.atS) >= midnightS ? 'today' : 'earlier';
  }
  return isRunning(row.state) || row.tasks.some(task => isRunning(task.state))
    ? 'running'
    : 'waiting';
}

function rows(jobs: Iterable<Job>, queues: Entries, past: Entries): JobRow[] {
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
  for (const [cluster, entries] of queues) {
    for (const entry of entries) {
      addEntry(found, cluster, entry);
    }
  }
  const present = new Set(found.keys());
  for (const [cluster, entries] of past) {
    for (const entry of entries) {
      // What is still there is told by who knows more of it.
      if (entry.id == null && !present.has(keyOf(cluster, entry.array_id ?? entry.slurm_id))) {
        addEntry(found, cluster, entry);
      }
    }
  }
  return [...found.values()];
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

/** An array that only Slurm knows is what the task is that says most of it. */
function tellOfAll(array: JobRow): void {
  const most = array.tasks.find(task => isRunning(task.state)) ?? array.tasks[0];
  if (most !== undefined) {
    const { state, startedS, nodes, why, held, startEstimateS } = most;
    Object.assign(array, { state, startedS, nodes, why, held, startEstimateS });
    array.gpus = array.tasks.reduce(
      (sum, task) => sum + (isRunning(task.state) ? task.gpus : 0),
      0
    );
  }
}

/** The key that a row has now, by the one that it had while only Slurm knew the job. */
export function keysNow(rows: Iterable<JobRow>): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  const slurms: string[] = [];
  for (const { key, cluster, slurmId, job } of rows) {
    if (job === null) {
      slurms.push(key);
    } else if (slurmId !== null) {
      keys.set(keyOf(cluster, slurmId), key);
    }
  }
  slurms.forEach(key => keys.delete(key));
  return keys;
}

/** What a command is told of it. */
export function targetOf({ cluster, id, slurmId, name, state }: JobRow): Target {
  return { cluster, id, slurm_id: slurmId, name, state };
}

function keyOf(cluster: string, id: string): string {
  return `${cluster}\n${id}`;
}

function rowOfJob(job: Job): JobRow {
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
    why: job.state === 'COMPLETED' ? null : job.why,
    startEstimateS: isFinal(job.state) ? null : job.start_estimate_s,
    atS: job.ended_s ?? job.created_s,
    held: isHeld(job.state, job.reason),
    tasks: [],
    inSession: sessionOf(job) !== null
  };
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
    why: entry.why ?? null,
    startEstimateS: entry.start_estimate_s ?? null,
    atS: entry.ended_s ?? entry.submitted_s ?? 0,
    held: isHeld(entry.state, entry.reason ?? null),
    tasks: [],
    inSession: false
  };
}

function isHeld(state: string, reason: string | null): boolean {
  return state === 'PENDING' && (reason ?? '').includes('Held');
}

/** Those in which every word is found: in name, ids, state, node, cluster or reason. */
export function matching(
  list: readonly JobRow[],
  words: string,
  trans: TranslationBundle
): JobRow[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return list.filter(row => {
    const why = said(row.why ?? '', trans);
    const text = [row.name, row.id, row.slurmId, row.state, row.nodes, row.cluster, why]
      .join(' ')
      .toLowerCase();
    return wanted.every(word => text.includes(word));
  });
}
