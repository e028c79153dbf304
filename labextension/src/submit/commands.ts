// The commands that open the form: on nothing, on a file, on a cell, on a notebook.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';
import { tell } from '../commands/jobs';
import { slurmIcon } from '../icons';
import { CommandIDs } from '../tokens';
import { cellText, isRunnable } from './cell';
import { NO_WISHES, wishesOf, type Wishes } from './form';
import { cellSource, type Place } from './notebook';
import type { CellSource, Source } from './source';

const RUNNABLE = /\.(?:py|sh|slurm|sbatch|ipynb)$/i;
const NOTHING = { args: { type: 'object', properties: {} } } as const;

interface Front {
  app: JupyterFrontEnd;
  trans: TranslationBundle;
  /** The file browser that is looked at. */
  browser: () => FileBrowser | null;
  notebooks: INotebookTracker | null;
  /** `wishes`: of a line that there is already. */
  open: (source: Source, wishes?: Partial<Wishes>) => Promise<Widget>;
}

export function addSubmitCommands(front: Front): void {
  const { app, trans, notebooks, open } = front;
  const add = (
    id: string,
    label: string,
    caption: string,
    execute: () => Promise<Widget> | undefined,
    is: { isEnabled?: () => boolean; isVisible?: () => boolean }
  ): void => {
    app.commands.addCommand(id, {
      label,
      caption,
      icon: slurmIcon,
      describedBy: NOTHING,
      ...is,
      execute: async () => {
        try {
          return await execute();
        } catch (error) {
          tell(error, label);
          return undefined;
        }
      }
    });
  };
  addNew(front);
  add(
    CommandIDs.startLab,
    trans.__('Jupyter on a node…'),
    trans.__('Fill in a form, and JupyterLab runs on a node and opens in a tab'),
    () => open({ kind: 'lab' }),
    {}
  );
  add(
    CommandIDs.newKernel,
    trans.__('New remote kernel…'),
    trans.__('Fill in a form, and there is a kernel to pick whose cells run in a job'),
    () => open({ kind: 'kernel' }),
    {}
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
    () => openCell(front),
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

function addNew({ app, trans, open }: Front): void {
  app.commands.addCommand(CommandIDs.submit, {
    label: args => (args.isLauncher ? trans.__('Slurm job') : trans.__('New Slurm Job')),
    caption: trans.__('Fill in a form and submit a job'),
    icon: slurmIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          cluster: { type: 'string', description: 'The cluster to begin with.' },
          line: { type: 'string', description: 'The words of a `%%slurm` line to begin with.' },
          code: { type: 'string', description: 'The text of the job.' },
          isLauncher: { type: 'boolean', description: 'Whether it is a card of the launcher.' }
        }
      }
    },
    execute: async ({ cluster, line, code }) => {
      const said = typeof line === 'string' ? wishesOf(line) : {};
      const where = typeof cluster === 'string' ? { cluster } : {};
      return open(
        { kind: 'code', code: typeof code === 'string' ? code : '' },
        { ...said, ...where }
      );
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

/** As the server knows it; null: it lies on a drive that is not the server's. */
function localPath(app: JupyterFrontEnd, path: string): string | null {
  const { contents } = app.serviceManager;
  return ['', 'RTC'].includes(contents.driveName(path)) ? contents.localPath(path) : null;
}

function codeOf(notebooks: INotebookTracker | null): string {
  const model = notebooks?.activeCell?.model;
  return model?.type === 'code' ? model.sharedModel.getSource() : '';
}

function shower({ shell }: JupyterFrontEnd): (panel: Widget) => void {
  return panel => {
    shell.activateById(panel.id);
  };
}

/** The cell of a form that was open before the page was loaded; its notebook may come later. */
export function cellOf(
  { app, notebooks, trans }: Pick<Front, 'app' | 'notebooks' | 'trans'>,
  notebook: string,
  id: string
): CellSource {
  const find = (): Place | null => {
    const panel = notebooks?.find(
      ({ context }) => (localPath(app, context.path) ?? context.localPath) === notebook
    );
    const cell = panel?.content.widgets.find(one => one.model.id === id);
    return panel === undefined || cell === undefined ? null : { panel, cell };
  };
  return cellSource(id, notebook, find, shower(app), trans);
}

function openCell({ app, trans, notebooks, open }: Front): Promise<Widget> | undefined {
  const panel = notebooks?.currentWidget;
  const cell = notebooks?.activeCell;
  if (panel == null || cell == null) {
    return undefined;
  }
  const path = localPath(app, panel.context.path) ?? panel.context.localPath;
  const { line } = cellText(cell.model.sharedModel.getSource());
  const find = (): Place | null => (cell.isDisposed || panel.isDisposed ? null : { panel, cell });
  return open(
    cellSource(cell.model.id, path, find, shower(app), trans),
    // What the cell says itself is all that it wants.
    line === null ? undefined : { ...NO_WISHES, ...wishesOf(line) }
  );
}
