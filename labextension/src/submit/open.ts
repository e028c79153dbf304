// Opening of a form with its first values, and its submission; loaded on demand.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, type WidgetTracker } from '@jupyterlab/apputils';
import type { IEditorServices } from '@jupyterlab/codeeditor';
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
  editors: IEditorServices;
  documents: IDocumentManager | null;
  notifier: INotifier | null;
  forms: WidgetTracker<Form>;
  state: IStateDB | null;
}

export type Form = MainAreaWidget<SubmitPanel>;

/** The source, the first values, and the name of a form from before a reload. */
export type Begun = [source: Source, begun?: Partial<Wishes>, name?: string];

export async function openForm(parts: Parts, ...[source, begun = {}, name]: Begun): Promise<Form> {
  const { app, model, editors, forms } = parts;
  const memory = new Memory(parts.state, keyOf(source));
  await memory.read();
  const named = begun.cluster ?? '';
  const cluster = named === '' ? await lastCluster(memory, model) : named;
  const wishes = { ...memory.of(cluster), ...begun, cluster };
  const submit = sendingOf(parts, source, () => panel);
  const { commands } = app;
  const content = new SubmitPanel({
    ...{ model, commands, editors, source, wishes, name, memory, submit }
  });
  const panel = new MainAreaWidget({ content });
  content.drafted.connect(() => void forms.save(panel));
  await forms.add(panel);
  show(app, panel);
  return panel;
}

/** Open the form with the options of that job, or show why this is not possible. */
export async function resubmit(parts: Parts, id: string): Promise<Form | undefined> {
  const { app, model } = parts;
  const { job, asked, code } = await model.details(id);
  const source = sourceOf(job, code, await fileStillThere(app, asked?.file ?? null));
  if (asked !== null && asked.file !== null && source === null) {
    warn(trans.__('Not found: %1', visible(asked.file)));
  } else if (asked === null || source === null) {
    warn(trans.__('No options are recorded for %1.', visible(job.name)));
  } else {
    return openForm(parts, source, wishesOfJob(asked, job.cluster));
  }
  return undefined;
}

/** Return the file's path below the server's root; null if it is not found. */
async function fileStillThere(app: JupyterFrontEnd, file: string | null): Promise<string | null> {
  const path = belowRoot(file ?? '', PageConfig.getOption('serverRoot'));
  return path !== null && (await isThere(app, path)) ? path : null;
}

/** Return the key of the last options. */
function keyOf({ kind }: Source): string {
  return kind === 'lab' ? LABS : kind === 'kernel' ? KERNELS : JOBS;
}

async function lastCluster(memory: Memory, model: ISlurmModel): Promise<string> {
  const known =
    model.clusters.length > 0 ? model.clusters : await model.call<Cluster[]>('clusters');
  const there = known.some(one => one.name === memory.last);
  return there ? memory.last : usualCluster(model);
}

/** Return the action of the form's button, which closes the form at the end. */
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
        const { job } = await source.run(line); // the card below the cell shows the rest
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
          form().dispose(); // a form with code stays open, since only the form has the code
        }
        // The job's panel confirms the submission.
        await app.commands.execute(CommandIDs.openJob, { id: job.id });
        return;
      }
    }
    form().dispose();
  };
}

/** `line` contains the arguments after `jupyter slurm kernel add`. */
async function addKernel(
  app: JupyterFrontEnd,
  model: ISlurmModel,
  notifier: INotifier | null,
  line: string
): Promise<void> {
  const { name, display_name: title } = await model.call<RemoteKernel>('kernel_add', { line });
  // Update the launcher and the kernel picker.
  await app.serviceManager.kernelspecs.refreshSpecs();
  const command = 'notebook:create-new';
  const lead = { label: trans.__('New notebook'), command, args: { kernelName: name } };
  const told = trans.__('Kernel "%1" is ready', visible(title));
  notifier?.say(told, app.commands.hasCommand(command) ? lead : null);
}

/** Open the tab at once, while the browser allows it. */
async function startLab(sender: Sender, cluster: string, line: string): Promise<Job> {
  const tab = newTab(
    trans.__(
      'Submitting the lab. If the cluster needs a login, answer its questions in the other tab.'
    )
  );
  try {
    const job = await sender.submit(cluster, line, { code: '', kind: 'lab' });
    if (!tab.enter(roomUrl(job.id))) {
      warn(trans.__('The browser blocked the new tab. Allow pop-ups for this page.'));
    }
    return job;
  } catch (error) {
    tab.close();
    throw error;
  }
}

/** Save an open document, so that the job runs the content that the user sees. */
async function save(documents: IDocumentManager | null, path: string): Promise<void> {
  const widget = documents?.findWidget(path, null);
  const context = widget && documents?.contextForWidget(widget);
  if (context?.model.dirty) {
    await context.save();
  }
}
