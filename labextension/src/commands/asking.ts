// What is asked before something is done that cannot be taken back. Which jobs these are is said by
// the agent's words for them, not by those of whoever calls.
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { sessionOf, stateWord, visible } from '../format';
import type { ISlurmModel } from '../tokens';
import { isTask, jobOf, stateOf, type Target } from './targets';

/** More are counted, not named. */
const NAMED = 10;

export async function mayCancel(
  model: ISlurmModel,
  targets: readonly Target[],
  trans: TranslationBundle
): Promise<boolean> {
  return mayLose(model, targets, trans, {
    title: trans._n('Cancel this job?', 'Cancel %1 jobs?', targets.length),
    lost: held(model, targets, trans),
    label: trans._n('Cancel the job', 'Cancel the jobs', targets.length)
  });
}

export async function mayRequeue(
  model: ISlurmModel,
  targets: readonly Target[],
  trans: TranslationBundle
): Promise<boolean> {
  return mayLose(model, targets, trans, {
    title: trans._n('Requeue this job?', 'Requeue %1 jobs?', targets.length),
    lost: trans.__('What runs ends now and begins anew later. What it has not saved is lost.'),
    label: trans._n('End and requeue the job', 'End and requeue the jobs', targets.length)
  });
}

export async function mayForget(
  model: ISlurmModel,
  targets: readonly Target[],
  trans: TranslationBundle
): Promise<boolean> {
  return mayLose(model, targets, trans, {
    title: trans._n('Forget this job?', 'Forget %1 jobs?', targets.length),
    lost: trans.__('Output and variables that nobody has fetched are lost.'),
    label: trans.__('Forget')
  });
}

/** null: nothing is to change. */
export async function wantedLimit(trans: TranslationBundle): Promise<string | null> {
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
  trans: TranslationBundle,
  { title, lost, label }: { title: string; lost: string; label: string }
): Promise<boolean> {
  const names = await named(model, targets, trans);
  const result = await showDialog({
    title,
    body: new Names(names, targets.length, lost, trans),
    buttons: [Dialog.cancelButton({ label: trans.__('Keep') }), Dialog.warnButton({ label })]
  });
  return result.button.accept;
}

/** What is lost besides the work of the job itself. */
function held(model: ISlurmModel, targets: readonly Target[], trans: TranslationBundle): string {
  const jobs = targets.flatMap(({ id }) => (id === null ? [] : (model.jobs.get(id) ?? [])));
  if (jobs.some(job => sessionOf(job) !== null && job.cancel_requested_s !== null)) {
    return trans.__('Asked again, its process ends, and what the session holds is lost.');
  }
  return jobs.some(({ kind }) => ['session', 'kernel', 'lab'].includes(kind))
    ? trans.__('The variables of a session or kernel, and what a lab has not saved, are lost.')
    : '';
}

function named(
  model: ISlurmModel,
  targets: readonly Target[],
  trans: TranslationBundle
): Promise<string[]> {
  return Promise.all(targets.slice(0, NAMED).map(target => nameOf(model, target, trans)));
}

async function nameOf(
  model: ISlurmModel,
  target: Target,
  trans: TranslationBundle
): Promise<string> {
  const job = target.id === null ? null : await jobOf(model, target);
  const name = visible(job?.name ?? target.name ?? '');
  const slurmId = isTask(target) ? target.slurm_id : (job?.slurm_id ?? target.slurm_id);
  const state = stateOf(model, target) ?? job?.state;
  return [
    name,
    slurmId ?? target.id ?? '',
    job?.cluster ?? target.cluster,
    state === undefined ? '' : stateWord(state, trans)
  ]
    .filter(part => part !== '')
    .join(' · ');
}

class Names extends Widget {
  constructor(names: readonly string[], count: number, more: string, trans: TranslationBundle) {
    super();
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-Names');
    const list = document.createElement('ul');
    for (const name of names) {
      const item = document.createElement('li');
      const text = document.createElement('bdi');
      text.textContent = name;
      item.append(text);
      list.append(item);
    }
    this.node.append(list);
    const rest = count - names.length;
    for (const line of [rest > 0 ? trans._n('and %1 more', 'and %1 more', rest) : '', more]) {
      if (line !== '') {
        const text = document.createElement('p');
        text.textContent = line;
        this.node.append(text);
      }
    }
  }
}
