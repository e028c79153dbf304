// Opens a form with its first values and the action of its button. Loaded when the first is opened.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, type WidgetTracker } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { IStateDB } from '@jupyterlab/statedb';
import { isThere } from '../commands/places';
import { show } from '../commands/show';
import { jobOf, usualCluster } from '../commands/targets';
import { warn } from '../commands/telling';
import { belowRoot } from '../commands/where';
import { visible } from '../format';
import { newTab, roomUrl } from '../labs/room';
import { CommandIDs, type INotifier, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Cluster, Job, RemoteKernel } from '../wire';
import { sourceOf, wishesOfJob } from './again';
import type { Wishes } from './form';
import { JOBS, KERNELS, LABS, Memory } from './memory';
import { Sender } from './sending';
import type { Source } from './source';
import { SubmitPanel } from './widget';

export interface Parts {
  app: JupyterFrontEnd;
  model: ISlurmModel;
  documents: IDocumentManager | null;
  notifier: INotifier | null;
  forms: WidgetTracker<Form>;
  state: IStateDB | null;
}

export type Form = MainAreaWidget<SubmitPanel>;

/** The form's source, first values, and its name if it was open before. */
export type Begun = [source: Source, begun?: Partial<Wishes>, name?: string];

export async function openForm(parts: Parts, ...[source, begun = {}, name]: Begun): Promise<Form> {
  const { app, model, forms } = parts;
  const memory = new Memory(parts.state, keyOf(source));
  await memory.read();
  const named = begun.cluster ?? '';
  const cluster = named === '' ? await lastCluster(memory, model) : named;
  const wishes = { ...memory.of(cluster), ...begun, cluster };
  const submit = sendingOf(parts, source, () => panel);
  const { commands } = app;
  const content = new SubmitPanel({ model, commands, source, wishes, name, memory, submit });
  const panel = new MainAreaWidget({ content });
  content.drafted.connect(() => void forms.save(panel));
  await forms.add(panel);
  show(app, panel);
  return panel;
}

/** Opens the form with what that job was submitted with, or tells why that cannot be. */
export async function resubmit(parts: Parts, id: string): Promise<Form | undefined> {
  const { app, model } = parts;
  const { job, asked, code } = await model.details(id);
  const source = sourceOf(job, code, await fileStillThere(app, asked?.file ?? null));
  if (asked !== null && asked.file !== null && source === null) {
    warn(trans.__('Not found: %1', visible(asked.file)));
  } else if (asked === null || source === null) {
    warn(trans.__('What %1 was submitted with is not known here.', visible(job.name)));
  } else {
    return openForm(parts, source, wishesOfJob(asked, job.cluster));
  }
  return undefined;
}

/** Returns the file's path below the server's root; null: the file is not there. */
async function fileStillThere(app: JupyterFrontEnd, file: string | null): Promise<string | null> {
  const path = belowRoot(file ?? '', PageConfig.getOption('serverRoot'));
  return path !== null && (await isThere(app, path)) ? path : null;
}

/** Returns the key under which the last choices are saved. */
function keyOf({ kind }: Source): string {
  return kind === 'lab' ? LABS : kind === 'kernel' ? KERNELS : JOBS;
}

async function lastCluster(memory: Memory, model: ISlurmModel): Promise<string> {
  const known =
    model.clusters.length > 0 ? model.clusters : await model.call<Cluster[]>('clusters');
  const there = known.some(one => one.name === memory.last);
  return there ? memory.last : usualCluster(model);
}

/** Returns the action of the form's button. It closes the form when the work is done. */
function sendingOf(
  { app, model, documents, notifier }: Parts,
  source: Source,
  form: () => Form
): (wishes: Wishes, line: string, code: string) => Promise<void> {
  const sender = new Sender(model);
  return async ({ cluster }, line, code) => {
    const { made } = form().content;
    switch (source.kind) {
      case 'cell': {
        const { job } = await source.run(line); // the card under the cell tells the rest
        made.resolve(job.then(id => (id === null ? null : jobOf(model, id))));
        break;
      }
      case 'lab':
        made.resolve(await startLab(sender, cluster, line));
        break;
      case 'kernel':
        await addKernel(app, model, notifier, line);
        break;
      default: {
        if (source.kind === 'file') {
          await save(documents, source.path);
        }
        const what = source.kind === 'file' ? { path: source.path } : { code };
        const job = await sender.submit(cluster, line, what);
        made.resolve(job);
        if (source.kind === 'file') {
          form().dispose(); // but not over a text, which is kept nowhere else
        }
        // The job's panel says that the job is submitted.
        await app.commands.execute(CommandIDs.openJob, { id: job.id });
        return;
      }
    }
    form().dispose();
  };
}

/** `line`: the words after `jupyter slurm kernel add`. Rejects: there is no such kernel then. */
async function addKernel(
  app: JupyterFrontEnd,
  model: ISlurmModel,
  notifier: INotifier | null,
  line: string
): Promise<void> {
  const { name, display_name: title } = await model.call<RemoteKernel>('kernel_add', { line });
  // So that launcher and picker have it at once.
  await app.serviceManager.kernelspecs.refreshSpecs();
  const command = 'notebook:create-new';
  const lead = { label: trans.__('New notebook'), command, args: { kernelName: name } };
  const told = trans.__('Kernel "%1" is ready', visible(title));
  notifier?.say(told, app.commands.hasCommand(command) ? lead : null);
}

/** Opens the tab at once, while the browser still allows it; the tab waits for the lab. */
async function startLab(sender: Sender, cluster: string, line: string): Promise<Job> {
  const tab = newTab(
    trans.__(
      'The lab is being asked for. Where that needs a login, its questions are in the tab that you come from.'
    )
  );
  try {
    const job = await sender.submit(cluster, line, { code: '', kind: 'lab' });
    if (!tab.enter(roomUrl(job.id))) {
      warn(trans.__('This browser lets no tab be opened. Its own settings say why.'));
    }
    return job;
  } catch (error) {
    tab.close();
    throw error;
  }
}

/** Saves an open document first, so that the job runs what its user sees. */
async function save(documents: IDocumentManager | null, path: string): Promise<void> {
  const widget = documents?.findWidget(path, null);
  const context = widget && documents?.contextForWidget(widget);
  if (context?.model.dirty) {
    await context.save();
  }
}
