// The plugin of the form, and of the executed copies of notebooks.
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  IToolbarWidgetRegistry,
  Notification,
  WidgetTracker
} from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { IStateDB } from '@jupyterlab/statedb';
import { editIcon } from '@jupyterlab/ui-components';
import { addCommands, type Command } from '../commands/jobs';
import { addCommand } from '../commands/telling';
import { told } from '../messages';
import { visible } from '../format';
import { CommandIDs, INotifier, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { addSubmitCommands } from './commands';
import { ExecutedCopies } from './executed';
import type { Begun, Form, Parts } from './open';
import { isRepeatable } from './source';
import { slurmButton, TOOLBAR_ITEM } from './toolbar';

const IN_THE_LAUNCHER = [CommandIDs.submit, CommandIDs.startLab, CommandIDs.newKernel];

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:submit',
  description: 'The form that submits jobs, and the executed copies of notebooks.',
  autoStart: true,
  requires: [ISlurmModel, IEditorServices],
  optional: [
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
    editors: IEditorServices,
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
    const parts = {
      app,
      model,
      editors,
      documents,
      notifier,
      forms: new WidgetTracker<Form>({ namespace: 'slurm-form' }),
      state
    };
    addSubmitCommands({
      app,
      model,
      browser: () => browsers?.tracker.currentWidget ?? null,
      notebooks,
      open: (source, wishes) => open(parts, source, wishes)
    });
    addCommands(app, [resubmission(parts)]);
    const category = trans.__('Slurm');
    IN_THE_LAUNCHER.forEach((command, at) => {
      launcher?.add({ command, args: { isLauncher: true }, category, rank: at + 1 });
    });
    for (const command of [...IN_THE_LAUNCHER, CommandIDs.submitCell, CommandIDs.submitNotebook]) {
      palette?.addItem({ command, category });
    }
    toolbars?.addFactory<NotebookPanel>('Notebook', TOOLBAR_ITEM, panel =>
      slurmButton(panel, app.commands)
    );
    restoreForms(parts, notebooks, restorer);
    bringExecuted(parts);
  }
};

async function open(parts: Parts, ...begun: Begun): Promise<Form> {
  const { openForm } = await import('./open');
  return openForm(parts, ...begun);
}

function resubmission(parts: Parts): Command {
  const { model } = parts;
  return {
    id: CommandIDs.resubmit,
    label: trans.__('Edit and resubmit…'),
    caption: trans.__('Open a form with the options of this job'),
    icon: editIcon,
    fits: ({ id }) => {
      const job = id === null ? undefined : model.jobs.get(id);
      return job !== undefined && isRepeatable(job);
    },
    execute: async ([target]) => {
      const { resubmit } = await import('./open');
      return (await resubmit(parts, target?.id ?? ''))?.content.made.promise;
    }
  };
}

/** Restore the forms from before a reload. */
function restoreForms(
  parts: Parts,
  notebooks: INotebookTracker | null,
  restorer: ILayoutRestorer | null
): void {
  const { app, forms } = parts;
  addCommand(app.commands, CommandIDs.restoreForm, {
    label: trans.__('New Slurm job'),
    isVisible: () => false,
    execute: async args => {
      const { readKept } = await import('./restoring');
      const found = readKept(args);
      if (found !== null) {
        const { name, subject, wishes } = found;
        const source =
          subject.kind === 'cell'
            ? (await import('./cells')).cellOf({ app, notebooks }, subject.notebook, subject.cell)
            : subject;
        await open(parts, source, wishes, name);
      }
    }
  });
  // The notebook of a form may open later.
  notebooks?.widgetAdded.connect((_, { context }) => {
    void context.ready.then(() => forms.forEach(form => form.content.update()));
  });
  void restorer?.restore(forms, {
    command: CommandIDs.restoreForm,
    args: form => form.content.kept,
    name: form => form.content.name
  });
}

function bringExecuted({ app, model, notifier }: Parts): void {
  const copies = new ExecutedCopies(model, {
    written: (job, path) => {
      const name = visible(path.split('/').at(-1) ?? path);
      const lead = { label: trans.__('Open'), command: 'docmanager:open', args: { path } };
      notifier?.say(trans.__('%1 finished. Results: %2', visible(job.name), name), lead, job.id);
    },
    failed: (job, problem) => {
      Notification.warning(
        `${trans.__('Could not save the executed copy of %1:', visible(job.name))} ${told(problem)}`
      );
    }
  });
  void app.restored.then(() => copies.begin());
}
