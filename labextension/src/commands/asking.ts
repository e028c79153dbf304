// Confirmation dialogs. They name jobs by the agent's data, not by the caller's.
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { addRow, live, type Counts } from '../counts';
import { make } from '../dom';
import { isFinal, sessionOf, stateWord, visible } from '../format';
import { dotted, listed, numeral } from '../language';
import { counted } from '../tasks';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { isTask, jobOf, stateOf, type Target } from './targets';

/** Maximum number of jobs in a list. A longer list is cut, and the rest is counted. */
const LISTED = 10;

export async function mayCancel(model: ISlurmModel, targets: readonly Target[]): Promise<boolean> {
  return mayLose(model, targets, {
    title: trans._n('Cancel this job?', 'Cancel %2 jobs?', ...many(model, targets)),
    lost: held(model, targets),
    label: trans._n('Cancel the job', 'Cancel the jobs', targets.length)
  });
}

export async function mayRequeue(model: ISlurmModel, targets: readonly Target[]): Promise<boolean> {
  return mayLose(model, targets, {
    title: trans._n('Requeue this job?', 'Requeue %2 jobs?', ...many(model, targets)),
    lost: trans.__('The job stops now and starts again later. Unsaved work will be lost.'),
    label: trans._n('End and requeue the job', 'End and requeue the jobs', targets.length)
  });
}

export async function mayForget(model: ISlurmModel, targets: readonly Target[]): Promise<boolean> {
  return mayLose(model, targets, {
    title: trans._n('Remove this job?', 'Remove %2 jobs?', ...many(model, targets)),
    lost: trans.__('Output and variables that have not been fetched will be lost.'),
    label: trans.__('Remove')
  });
}

/** Ask for a time limit; return null if the user cancelled. */
export async function wantedLimit(): Promise<string | null> {
  const { button, value } = await InputDialog.getText({
    title: trans.__('More time'),
    label: trans.__('+1h adds an hour; 4h sets the limit to four hours'),
    text: '+1h',
    okLabel: trans.__('Change')
  });
  return button.accept && value ? value : null;
}

async function mayLose(
  model: ISlurmModel,
  targets: readonly Target[],
  { title, lost, label }: { title: string; lost: string; label: string }
): Promise<boolean> {
  const names =
    targets.length > LISTED
      ? { line: someNames(model, targets) }
      : { list: await Promise.all(targets.map(target => nameOf(model, target))) };
  const counts = targets.length > 1 ? inWords(model, targets) : '';
  const result = await showDialog({
    title,
    body: bodyOf({ counts, ...names, lost }),
    buttons: [Dialog.cancelButton({ label: trans.__('Keep') }), Dialog.warnButton({ label })]
  });
  return result.button.accept;
}

/** Describe the data that are lost with the jobs. */
function held(model: ISlurmModel, targets: readonly Target[]): string {
  const jobs = targets.flatMap(({ id }) => (id === null ? [] : (model.jobs.get(id) ?? [])));
  if (jobs.some(job => sessionOf(job) !== null && job.cancel_requested_s !== null)) {
    return trans.__('Cancelling again ends the process and loses the variables of the session.');
  }
  return jobs.some(({ kind }) => ['session', 'kernel', 'lab'].includes(kind))
    ? trans.__('Variables of sessions and kernels and unsaved work in labs will be lost.')
    : '';
}

/** Count the jobs. Each task of an array counts as a job. */
export function countOf(model: ISlurmModel, targets: readonly Target[]): number {
  const { running, waiting } = live(countsOf(model, targets));
  return Math.max(targets.length, running + waiting);
}

/** Return the count for `_n`, and as text. */
function many(model: ISlurmModel, targets: readonly Target[]): [number, string] {
  const count = countOf(model, targets);
  return [count, numeral(count)];
}

function countsOf(model: ISlurmModel, targets: readonly Target[]): Counts {
  const counts: Counts = new Map();
  for (const target of targets) {
    const job = target.id === null || isTask(target) ? undefined : model.jobs.get(target.id);
    const state = stateOf(model, target);
    if (job !== undefined) {
      addRow(counts, job);
    } else if (state !== null) {
      addRow(counts, { state, slurm_id: target.slurm_id });
    }
  }
  return counts;
}

/** Return the counts, as in `4,750 waiting, 50 running`. */
function inWords(model: ISlurmModel, targets: readonly Target[]): string {
  const words = new Map<string, { state: string; count: number }>();
  for (const [state, count] of countsOf(model, targets)) {
    if (!isFinal(state)) {
      const word = stateWord(state);
      words.set(word, { state, count: (words.get(word)?.count ?? 0) + count });
    }
  }
  return listed(
    [...words.values()]
      .sort((one, other) => other.count - one.count)
      .map(({ state, count }) => counted(state, count))
  );
}

function someNames(model: ISlurmModel, targets: readonly Target[]): string {
  const all = targets.map(({ id, name, slurm_id }) => {
    const job = id === null ? undefined : model.jobs.get(id);
    return visible(job?.name ?? name ?? slurm_id ?? id ?? '');
  });
  const names = [...new Set(all)];
  const rest = names.length - LISTED;
  return [
    listed(names.slice(0, LISTED)),
    rest > 0 ? trans._n('and %2 more', 'and %2 more', rest, numeral(rest)) : ''
  ]
    .filter(part => part !== '')
    .join(' ');
}

async function nameOf(model: ISlurmModel, target: Target): Promise<string> {
  const job = target.id === null ? null : await jobOf(model, target.id);
  const name = visible(job?.name ?? target.name ?? '');
  const slurmId = isTask(target) ? target.slurm_id : (job?.slurm_id ?? target.slurm_id);
  const state = stateOf(model, target) ?? job?.state;
  return dotted([
    name,
    slurmId ?? target.id ?? '',
    job?.cluster ?? target.cluster,
    state === undefined ? '' : stateWord(state)
  ]);
}

interface What {
  counts: string;
  /** Return the names of a few jobs. */
  list?: readonly string[];
  /** Return the first names of many jobs. */
  line?: string;
  lost: string;
}

function bodyOf({ counts, list = [], line = '', lost }: What): Widget {
  // Names may be in a script that is written from right to left.
  const isolated = (text: string): HTMLElement => make('bdi', {}, text);
  const paragraphs = (...lines: string[]): HTMLElement[] =>
    lines.filter(Boolean).map(one => make('p', {}, isolated(one)));
  const names = list.map(name => make('li', {}, isolated(name)));
  const body = new Widget();
  body.addClass('jp-slurm');
  body.addClass('jp-slurm-Names');
  body.node.append(
    ...paragraphs(counts),
    ...(names.length > 0 ? [make('ul', {}, ...names)] : []),
    ...paragraphs(line, lost)
  );
  return body;
}
