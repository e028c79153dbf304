// The commands that open the form: empty, for a file, for a cell, or for a notebook.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { jobOf } from '../commands/targets';
import { addCommand } from '../commands/telling';
import { jobsIn } from '../commands/where';
import { jobIcon, kernelIcon, labIcon } from '../icons';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { cellText, isRunnable, saysOtherwise } from './cell';
import type { Wishes } from './form';
import type { Place } from './place';
import type { Source } from './source';

const RUNNABLE = /\.(?:py|sh|slurm|sbatch|ipynb)$/i;
const IS_LAUNCHER = {
  isLauncher: { type: 'boolean', description: 'True for a card of the launcher.' }
} as const;

export interface Form extends IDisposable {
  readonly content: { readonly made: { readonly promise: Promise<Job | null> } };
}

export interface Front {
  app: JupyterFrontEnd;
  model: ISlurmModel;
  /** The current file browser. */
  browser: () => FileBrowser | null;
  notebooks: INotebookTracker | null;
  /** `wishes` are the options of an existing line. */
  open: (source: Source, wishes?: Partial<Wishes>) => Promise<Form>;
}

/**
 * Return the job that the form submits, or null if it is closed without a job. For the launcher
 * return the form itself.
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
      icon: jobIcon,
      takes: { type: 'object', properties: IS_LAUNCHER },
      ...is,
      execute: async args => givenBy(await execute(), args)
    });
  addNew(front);
  addAgain(front);
  add(
    CommandIDs.startLab,
    trans.__('Jupyter on a node…'),
    trans.__('Start JupyterLab in a job and open it in a tab'),
    () => open({ kind: 'lab' }),
    { icon: labIcon }
  );
  add(
    CommandIDs.newKernel,
    trans.__('New remote kernel…'),
    trans.__('Add a kernel whose cells run in a job'),
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
    trans.__('Run this cell on Slurm…'),
    trans.__('Run the active cell as a job'),
    async () => {
      const { openCell } = await import('./cells');
      return openCell(front);
    },
    { isEnabled: () => isRunnable(codeOf(notebooks)) }
  );
  add(
    CommandIDs.submitNotebook,
    trans.__('Run this notebook on Slurm…'),
    trans.__('Run all cells as a job and save an executed copy'),
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
          cluster: { type: 'string', description: 'The initial cluster.' },
          line: { type: 'string', description: 'The initial options, as in a `%%slurm` line.' },
          code: { type: 'string', description: 'The initial code.' },
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

/** Return the path of the one selected file if it can run; otherwise null. */
function selected({ app, browser }: Front): string | null {
  const items = [...(browser()?.selectedItems() ?? [])];
  const [item] = items;
  return items.length === 1 && item !== undefined && RUNNABLE.test(item.path)
    ? localPath(app, item.path)
    : null;
}

/** Return the path on the server; null if the file is on another drive. */
export function localPath(app: JupyterFrontEnd, path: string): string | null {
  const { contents } = app.serviceManager;
  return ['', 'RTC'].includes(contents.driveName(path)) ? contents.localPath(path) : null;
}

function codeOf(notebooks: INotebookTracker | null): string {
  const model = notebooks?.activeCell?.model;
  return model?.type === 'code' ? model.sharedModel.getSource() : '';
}

/** Return the cell of an open notebook whose output shows the job. */
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
    // The form would keep `--mem-per-cpu`, which Slurm rejects beside `--mem`.
    return place === null || (typeof option === 'string' && saysOtherwise(lineIn(place), option))
      ? null
      : place;
  };
  addCommand(app.commands, CommandIDs.submitAgain, {
    label: trans.__('Submit again'),
    caption: trans.__('Change the options of the cell and run the cell'),
    takes: {
      type: 'object',
      required: ['id', 'option', 'value'],
      properties: {
        id: { type: 'string', description: 'The ID of the job.' },
        option: { type: 'string', enum: ['mem', 'time'] },
        value: { type: 'string', description: 'The new value of the option.' }
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
