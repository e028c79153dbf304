// The commands that open the form: on nothing, on a file, on a cell, on a notebook.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { jobOf } from '../commands/targets';
import { addCommand } from '../commands/telling';
import { jobsIn } from '../commands/where';
import { jobIcon, kernelIcon, labIcon, slurmIcon } from '../icons';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { cellText, isRunnable, saysOtherwise } from './cell';
import type { Wishes } from './form';
import type { Place } from './place';
import type { Source } from './source';

const RUNNABLE = /\.(?:py|sh|slurm|sbatch|ipynb)$/i;
const IS_LAUNCHER = {
  isLauncher: { type: 'boolean', description: 'Whether it is a card of the launcher.' }
} as const;

export interface Form extends IDisposable {
  readonly content: { readonly made: { readonly promise: Promise<Job | null> } };
}

export interface Front {
  app: JupyterFrontEnd;
  model: ISlurmModel;
  /** The file browser that is looked at. */
  browser: () => FileBrowser | null;
  notebooks: INotebookTracker | null;
  /** `wishes`: of a line that there is already. */
  open: (source: Source, wishes?: Partial<Wishes>) => Promise<Form>;
}

/**
 * Returns what a command gives that opens a form: the job that the form makes, null if it is closed
 * without; for the launcher the form itself, which takes its place.
 */
async function givenBy(
  form: Form | undefined,
  { isLauncher }: ReadonlyPartialJSONObject
): Promise<Form | Job | null> {
  return form === undefined ? null : isLauncher === true ? form : form.content.made.promise;
}

export function addSubmitCommands(front: Front): void {
  const { app, notebooks, open } = front;
  const add = (
    id: string,
    label: string,
    caption: string,
    execute: () => Promise<Form | undefined> | undefined,
    is: Partial<Pick<CommandRegistry.ICommandOptions, 'icon' | 'isEnabled' | 'isVisible'>>
  ): void =>
    addCommand(app.commands, id, {
      label,
      caption,
      icon: slurmIcon,
      takes: { type: 'object', properties: IS_LAUNCHER },
      ...is,
      execute: async args => givenBy(await execute(), args)
    });
  addNew(front);
  addAgain(front);
  add(
    CommandIDs.startLab,
    trans.__('Jupyter on a node…'),
    trans.__('Fill in a form, and JupyterLab runs on a node and opens in a tab'),
    () => open({ kind: 'lab' }),
    { icon: labIcon }
  );
  add(
    CommandIDs.newKernel,
    trans.__('New remote kernel…'),
    trans.__('Fill in a form, and there is a kernel to pick whose cells run in a job'),
    () => open({ kind: 'kernel' }),
    { icon: kernelIcon }
  );
  add(
    CommandIDs.submitFile,
    trans.__('Run on Slurm…'),
    trans.__('Run this file as a job'),
    () => {
      const path = selected(front);
      return path === null ? undefined : open({ kind: 'file', path });
    },
    { isVisible: () => selected(front) !== null }
  );
  add(
    CommandIDs.submitCell,
    trans.__('This Cell on Slurm…'),
    trans.__('Run the active cell as a job; its output comes under it'),
    async () => {
      const { openCell } = await import('./cells');
      return openCell(front);
    },
    { isEnabled: () => isRunnable(codeOf(notebooks)) }
  );
  add(
    CommandIDs.submitNotebook,
    trans.__('This Notebook on Slurm…'),
    trans.__('Run all of it as a job; the executed copy is put beside it'),
    () => {
      const path = notebooks?.currentWidget?.context.path;
      const local = path === undefined ? null : localPath(app, path);
      return local === null ? undefined : open({ kind: 'file', path: local });
    },
    { isEnabled: () => notebooks?.currentWidget != null }
  );
}

function addNew({ app, open }: Front): void {
  app.commands.addCommand(CommandIDs.submit, {
    label: args => (args.isLauncher ? trans.__('Slurm job') : trans.__('New Slurm job')),
    caption: trans.__('Fill in a form and submit a job'),
    icon: jobIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          cluster: { type: 'string', description: 'The cluster to begin with.' },
          line: { type: 'string', description: 'The words of a `%%slurm` line to begin with.' },
          code: { type: 'string', description: 'The text of the job.' },
          ...IS_LAUNCHER
        }
      }
    },
    execute: async args => {
      const { cluster, line, code } = args;
      const { wishesOf } = await import('./form');
      const said = typeof line === 'string' ? wishesOf(line) : {};
      const where = typeof cluster === 'string' ? { cluster } : {};
      const text = typeof code === 'string' ? code : '';
      return givenBy(await open({ kind: 'code', code: text }, { ...said, ...where }), args);
    }
  });
}

/** The path of the one file that is selected and can be run; null: there is none. */
function selected({ app, browser }: Front): string | null {
  const items = [...(browser()?.selectedItems() ?? [])];
  const [item] = items;
  return items.length === 1 && item !== undefined && RUNNABLE.test(item.path)
    ? localPath(app, item.path)
    : null;
}

/** Returns the path that the server knows; null: it lies on a drive that is not the server's. */
export function localPath(app: JupyterFrontEnd, path: string): string | null {
  const { contents } = app.serviceManager;
  return ['', 'RTC'].includes(contents.driveName(path)) ? contents.localPath(path) : null;
}

function codeOf(notebooks: INotebookTracker | null): string {
  const model = notebooks?.activeCell?.model;
  return model?.type === 'code' ? model.sharedModel.getSource() : '';
}

/** The cell of an open notebook that asked for the job, by its output. */
function askerOf(notebooks: INotebookTracker | null, id: string): Place | null {
  let cell: Place['cell'] | undefined;
  const panel = notebooks?.find(({ content }) => {
    cell = content.widgets.find(({ model }) => {
      const { line } = cellText(model.sharedModel.getSource());
      return line !== null && jobsIn(model.toJSON()).includes(id);
    });
    return cell !== undefined;
  });
  return panel === undefined || cell === undefined ? null : { panel, cell };
}

function lineIn({ cell }: Place): string {
  return cellText(cell.model.sharedModel.getSource()).line ?? '';
}

function addAgain({ app, model, notebooks }: Front): void {
  const asker = ({ id, option }: ReadonlyPartialJSONObject): Place | null => {
    const place = typeof id === 'string' ? askerOf(notebooks, id) : null;
    // What the form has no field for stays as it is: `--mem-per-cpu` beside `--mem` is refused.
    return place === null || (typeof option === 'string' && saysOtherwise(lineIn(place), option))
      ? null
      : place;
  };
  addCommand(app.commands, CommandIDs.submitAgain, {
    label: trans.__('Submit again'),
    caption: trans.__('Change the line of the cell and run it'),
    takes: {
      type: 'object',
      required: ['id', 'option', 'value'],
      properties: {
        id: { type: 'string', description: 'The id of the job.' },
        option: { type: 'string', enum: ['mem', 'time'] },
        value: { type: 'string', description: 'What the option says from now on.' }
      }
    },
    isEnabled: args => asker(args) !== null,
    execute: async args => {
      const place = asker(args);
      const { option, value } = args;
      if (place === null || typeof option !== 'string' || typeof value !== 'string') {
        return null;
      }
      const { runAgain } = await import('./cells');
      const { job } = await runAgain(app, place, { [option]: value });
      return job.then(id => (id === null ? null : jobOf(model, id)));
    }
  });
}
