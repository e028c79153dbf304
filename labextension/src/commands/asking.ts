// What is asked before something is done that cannot be taken back. Which jobs these are is said by
// the agent's words for them, not by those of whoever calls.
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { addEntry, addJob, live, type Counts } from '../counts';
import { make } from '../dom';
import { isFinal, sessionOf, stateWord, visible } from '../format';
import { dotted, listed, numeral } from '../language';
import { counted } from '../tasks';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { isTask, jobOf, stateOf, type Target } from './targets';

/** More are counted, not listed; of these some are named. */
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
    lost: trans.__('What runs ends now and begins anew later. What it has not saved is lost.'),
    label: trans._n('End and requeue the job', 'End and requeue the jobs', targets.length)
  });
}

export async function mayForget(model: ISlurmModel, targets: readonly Target[]): Promise<boolean> {
  return mayLose(model, targets, {
    title: trans._n('Forget this job?', 'Forget %2 jobs?', ...many(model, targets)),
    lost: trans.__('Output and variables that nobody has fetched are lost.'),
    label: trans.__('Forget')
  });
}

/** null: nothing is to change. */
export async function wantedLimit(): Promise<string | null> {
  const { button, value } = await InputDialog.getText({
    title: trans.__('More time'),
    label: trans.__('+1h: an hour more; 4h: four hours in all'),
    text: '+1h',
    okLabel: trans.__('Ask Slurm for it')
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

/** What is lost besides the work of the job itself. */
function held(model: ISlurmModel, targets: readonly Target[]): string {
  const jobs = targets.flatMap(({ id }) => (id === null ? [] : (model.jobs.get(id) ?? [])));
  if (jobs.some(job => sessionOf(job) !== null && job.cancel_requested_s !== null)) {
    return trans.__('Asked again, its process ends, and what the session holds is lost.');
  }
  return jobs.some(({ kind }) => ['session', 'kernel', 'lab'].includes(kind))
    ? trans.__('The variables of a session or kernel, and what a lab has not saved, are lost.')
    : '';
}

/** How many they are, each task of an array being one; for `_n`: as a number and in words. */
function many(model: ISlurmModel, targets: readonly Target[]): [number, string] {
  const { running, waiting } = live(countsOf(model, targets));
  const count = Math.max(targets.length, running + waiting);
  return [count, numeral(count)];
}

function countsOf(model: ISlurmModel, targets: readonly Target[]): Counts {
  const counts: Counts = new Map();
  for (const target of targets) {
    const job = target.id === null || isTask(target) ? undefined : model.jobs.get(target.id);
    const state = stateOf(model, target);
    if (job !== undefined) {
      addJob(counts, job);
    } else if (state !== null) {
      addEntry(counts, { state, slurm_id: target.slurm_id ?? '' });
    }
  }
  return counts;
}

/** `4,750 waiting, 50 running`. */
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
  const job = target.id === null ? null : await jobOf(model, target);
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
  /** Each of a few. */
  list?: readonly string[];
  /** The first of many. */
  line?: string;
  lost: string;
}

function bodyOf({ counts, list = [], line = '', lost }: What): Widget {
  // Names may run from right to left.
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
