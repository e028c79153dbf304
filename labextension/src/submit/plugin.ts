// The plugin of the form: from the launcher, the file browser, a notebook's cell or all of it; and
// of the executed copies of notebooks that jobs have run.
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  Clipboard,
  ICommandPalette,
  InputDialog,
  IToolbarWidgetRegistry,
  MainAreaWidget,
  Notification,
  WidgetTracker
} from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { editIcon } from '@jupyterlab/ui-components';
import { addCommands, type Command } from '../commands/jobs';
import { isThere } from '../commands/places';
import { show } from '../commands/show';
import { usualCluster } from '../commands/targets';
import { warn } from '../commands/telling';
import { belowRoot } from '../commands/where';
import { told } from '../messages';
import { visible } from '../format';
import { addKernel } from '../kernels/kernelspecs';
import { newTab, roomUrl } from '../labs/room';
import { CommandIDs, INotifier, ISlurmModel } from '../tokens';
import { isRepeatable, sourceOf, wishesOfJob } from './again';
import { addSubmitCommands, cellOf } from './commands';
import { ExecutedCopies } from './executed';
import type { Wishes } from './form';
import { KERNELS, LABS, Memory } from './memory';
import { readKept } from './restoring';
import { Sender } from './sending';
import type { Source } from './source';
import { slurmButton, TOOLBAR_ITEM } from './toolbar';
import { SubmitPanel } from './widget';
import type { Cluster } from '../wire';

const IN_THE_PALETTE = [
  CommandIDs.startLab,
  CommandIDs.newKernel,
  CommandIDs.submit,
  CommandIDs.submitCell,
  CommandIDs.submitNotebook
];

interface Parts {
  app: JupyterFrontEnd;
  model: ISlurmModel;
  trans: TranslationBundle;
  documents: IDocumentManager | null;
  notifier: INotifier | null;
  forms: WidgetTracker<MainAreaWidget<SubmitPanel>>;
  memory: Memory;
  labs: Memory;
  kernels: Memory;
}

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:submit',
  description: 'A form that submits jobs to Slurm, and executed notebooks that come back.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [
    ITranslator,
    ILauncher,
    ICommandPalette,
    IFileBrowserFactory,
    INotebookTracker,
    IStateDB,
    IDocumentManager,
    IToolbarWidgetRegistry,
    ILayoutRestorer,
    INotifier
  ],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    translator: ITranslator | null,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    browsers: IFileBrowserFactory | null,
    notebooks: INotebookTracker | null,
    state: IStateDB | null,
    documents: IDocumentManager | null,
    toolbars: IToolbarWidgetRegistry | null,
    restorer: ILayoutRestorer | null,
    notifier: INotifier | null
  ) => {
    const trans = (translator ?? nullTranslator).load('jupyter_slurm');
    const parts = {
      app,
      model,
      trans,
      documents,
      notifier,
      forms: new WidgetTracker<MainAreaWidget<SubmitPanel>>({ namespace: 'slurm-form' }),
      memory: new Memory(state),
      labs: new Memory(state, LABS),
      kernels: new Memory(state, KERNELS)
    };
    addSubmitCommands({
      app,
      trans,
      browser: () => browsers?.tracker.currentWidget ?? null,
      notebooks,
      open: (source, wishes) => open(parts, source, wishes)
    });
    addCommands(app, trans, [resubmission(parts)]);
    launcher?.add({
      command: CommandIDs.submit,
      args: { isLauncher: true },
      category: trans.__('Slurm'),
      rank: 1
    });
    launcher?.add({ command: CommandIDs.startLab, category: trans.__('Slurm'), rank: 2 });
    launcher?.add({ command: CommandIDs.newKernel, category: trans.__('Slurm'), rank: 3 });
    for (const command of IN_THE_PALETTE) {
      palette?.addItem({ command, category: trans.__('Slurm') });
    }
    toolbars?.addFactory<NotebookPanel>('Notebook', TOOLBAR_ITEM, panel =>
      slurmButton(panel, app.commands, trans)
    );
    restoreForms(parts, notebooks, restorer);
    bringExecuted(parts);
  }
};

function resubmission(parts: Parts): Command {
  const { app, model, trans } = parts;
  return {
    id: CommandIDs.resubmit,
    label: trans.__('Edit and resubmit…'),
    caption: trans.__('Open a form with what this job was submitted with'),
    icon: editIcon,
    fits: ({ id }) => {
      const job = id === null ? undefined : model.jobs.get(id);
      return job !== undefined && isRepeatable(job);
    },
    execute: async ([target]) => {
      if (target?.id != null) {
        const { job, asked, code } = await model.details(target.id);
        const source = sourceOf(job, code, await fileStillThere(app, asked?.file ?? null));
        if (asked !== null && asked.file !== null && source === null) {
          warn(trans.__('Not among the files of this Jupyter: %1', visible(asked.file)));
        } else if (asked === null || source === null) {
          warn(trans.__('What %1 was submitted with is not known here.', visible(job.name)));
        } else {
          await open(parts, source, wishesOfJob(asked, job.cluster));
        }
      }
    }
  };
}

/** Its path below the server's root; null: it is not there, or not any more. */
async function fileStillThere(app: JupyterFrontEnd, file: string | null): Promise<string | null> {
  const path = belowRoot(file ?? '', PageConfig.getOption('serverRoot'));
  return path !== null && (await isThere(app, path)) ? path : null;
}

/** Those that were open when the page was left, with what was filled in. */
function restoreForms(
  parts: Parts,
  notebooks: INotebookTracker | null,
  restorer: ILayoutRestorer | null
): void {
  const { app, trans, forms } = parts;
  app.commands.addCommand(CommandIDs.restoreForm, {
    label: trans.__('New Slurm Job'),
    isVisible: () => false,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: async args => {
      const found = readKept(args);
      if (found !== null) {
        const { name, subject, wishes } = found;
        const source =
          subject.kind === 'cell'
            ? cellOf({ app, notebooks, trans }, subject.notebook, subject.cell)
            : subject;
        await open(parts, source, wishes, name);
      }
    }
  });
  // The cell of a form comes with its notebook, which may be later.
  notebooks?.widgetAdded.connect((_, { context }) => {
    void context.ready.then(() => {
      forms.forEach(form => {
        form.content.update();
      });
    });
  });
  void restorer?.restore(forms, {
    command: CommandIDs.restoreForm,
    args: form => form.content.kept,
    name: form => form.content.name
  });
}

async function open(
  parts: Parts,
  source: Source,
  begun: Partial<Wishes> = {},
  name?: string
): Promise<MainAreaWidget> {
  const { app, model, trans, forms } = parts;
  const memory = memoryOf(parts, source);
  await memory.read();
  const named = begun.cluster ?? '';
  const cluster = named === '' ? await lastCluster(memory, model) : named;
  const wishes = { ...memory.of(cluster), ...begun, cluster };
  const content = new SubmitPanel({
    model,
    trans,
    source,
    wishes,
    name,
    memory,
    askName: async () => {
      const { button, value } = await InputDialog.getText({
        title: trans.__('Save as favourite'),
        label: trans.__('Name'),
        okLabel: trans.__('Save')
      });
      return button.accept && value?.trim() ? value.trim() : null;
    },
    connect: one => void app.commands.execute(CommandIDs.connect, { cluster: one }),
    welcome: () => void app.commands.execute(CommandIDs.showSidebar),
    copy: text => {
      Clipboard.copyToSystem(text);
    },
    submit: sendingOf(parts, source, () => {
      panel.dispose();
    })
  });
  const panel = new MainAreaWidget({ content });
  content.drafted.connect(() => void forms.save(panel));
  await forms.add(panel);
  show(app, panel);
  return panel;
}

function memoryOf({ memory, labs, kernels }: Parts, { kind }: Source): Memory {
  return kind === 'lab' ? labs : kind === 'kernel' ? kernels : memory;
}

async function lastCluster(memory: Memory, model: ISlurmModel): Promise<string> {
  const known =
    model.clusters.length > 0 ? model.clusters : await model.call<Cluster[]>('clusters');
  const there = known.some(one => one.name === memory.last);
  return there ? memory.last : usualCluster(model);
}

/** What the form's button does; `close`: the form has done its work. */
function sendingOf(
  { app, model, trans, documents, notifier }: Parts,
  source: Source,
  close: () => void
): (wishes: Wishes, line: string, code: string) => Promise<void> {
  const sender = new Sender(model);
  return async ({ cluster }, line, code) => {
    if (source.kind === 'cell') {
      await source.run(line); // its card under the cell tells the rest
      close();
      return;
    }
    if (source.kind === 'lab') {
      await startLab(sender, cluster, line, trans);
      close();
      return;
    }
    if (source.kind === 'kernel') {
      await addKernel(app, model, notifier, line, trans);
      close();
      return;
    }
    if (source.kind === 'file') {
      await save(documents, source.path);
    }
    const what = source.kind === 'file' ? { path: source.path } : { code };
    const job = await sender.submit(cluster, line, what);
    if (source.kind === 'file') {
      close(); // a text stays: it is nowhere else
    }
    // Its panel tells that it is submitted.
    await app.commands.execute(CommandIDs.openJob, { id: job.id });
  };
}

/** The tab is opened first, while the browser still lets one be: it waits there for the lab. */
async function startLab(
  sender: Sender,
  cluster: string,
  line: string,
  trans: TranslationBundle
): Promise<void> {
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
  } catch (error) {
    tab.close();
    throw error;
  }
}

/** What is run is what its user sees: a document that is open is saved first. */
async function save(documents: IDocumentManager | null, path: string): Promise<void> {
  const widget = documents?.findWidget(path, null);
  const context = widget && documents?.contextForWidget(widget);
  if (context?.model.dirty) {
    await context.save();
  }
}

function bringExecuted({ app, model, trans, notifier }: Parts): void {
  const copies = new ExecutedCopies(model, {
    written: (job, path) => {
      const name = visible(path.split('/').at(-1) ?? path);
      const lead = { label: trans.__('Open'), command: 'docmanager:open', args: { path } };
      notifier?.say(trans.__('%1 has been run: %2', visible(job.name), name), lead, job.id);
    },
    failed: (job, problem) => {
      Notification.warning(
        `${trans.__('The executed copy of %1 did not come:', visible(job.name))} ${told(problem, trans)}`
      );
    }
  });
  void app.restored.then(() => {
    copies.begin();
  });
}
