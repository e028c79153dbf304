// Runs of a cell of an open notebook on Slurm. The line becomes the first line of the cell.
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { jobsIn } from '../commands/where';
import { trans } from '../translation';
import { cellText, LOAD, loadsSlurm, withLine } from './cell';
import type { Cell, Place } from './place';
import type { CellSource } from './source';

/** Code that checks whether the kernel knows `%%slurm`, without any effect. */
const KNOWS = "'slurm' in get_ipython().magics_manager.magics['cell']";

/** `find` returns null while the notebook is closed. */
export function cellSource(
  id: string,
  path: string,
  find: () => Place | null,
  show: (panel: NotebookPanel) => void
): CellSource {
  return {
    kind: 'cell',
    cell: id,
    notebook: path,
    body: () => {
      const source = find()?.cell.model.sharedModel.getSource();
      return source === undefined ? '' : cellText(source).body;
    },
    run: async line => {
      const found = find();
      if (found === null) {
        throw new Error(trans.__('The cell no longer exists.'));
      }
      const { panel, cell } = found;
      const kernel = await kernelOf(panel);
      const known = await isKnown(kernel);
      const { sharedModel } = cell.model;
      sharedModel.setSource(withLine(line, cellText(sharedModel.getSource()).body));
      show(panel);
      if (!known) {
        await load(panel, kernel);
      }
      const at = panel.content.widgets.indexOf(cell);
      panel.content.activeCellIndex = at;
      panel.content.deselectAll();
      // The run ends with the job, and the form does not wait for it.
      const done = NotebookActions.run(panel.content, panel.sessionContext);
      return { job: jobOfRun(cell, done) };
    }
  };
}

function jobOfRun({ model }: Cell, done: Promise<boolean>): Promise<string | null> {
  return new Promise(resolve => {
    const look = (): void => {
      const [id] = jobsIn(model.toJSON());
      if (id !== undefined) {
        model.contentChanged.disconnect(look);
        resolve(id);
      }
    };
    model.contentChanged.connect(look);
    void done.finally(() => {
      model.contentChanged.disconnect(look);
      resolve(null);
    });
  });
}

export async function kernelOf(panel: NotebookPanel): Promise<Kernel.IKernelConnection> {
  await panel.sessionContext.ready;
  const kernel = panel.sessionContext.session?.kernel;
  if (!kernel) {
    throw new Error(trans.__('The notebook has no kernel. Choose a kernel first.'));
  }
  const { language_info: language } = await kernel.info;
  if (language.name !== 'python') {
    throw new Error(trans.__('Cells of a %1 kernel cannot run on Slurm.', language.name));
  }
  return kernel;
}

/** Ask an idle kernel. Return false for a busy kernel. */
export async function isKnown(kernel: Kernel.IKernelConnection): Promise<boolean> {
  if (kernel.status !== 'idle') {
    return false;
  }
  const { content } = await kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: {
      known: KNOWS,
      there: "__import__('importlib.util').util.find_spec('jupyter_slurm') is not None"
    }
  }).done;
  const said = content.status === 'ok' ? content.user_expressions : {};
  if (text(said.there) === 'False') {
    throw new Error(
      trans.__(
        "jupyter-slurm is not installed in this kernel's Python. Run %pip install jupyter-slurm."
      )
    );
  }
  return text(said.known) === 'True';
}

function text(expression: unknown): string {
  const { data } = (expression ?? {}) as { data?: Record<string, unknown> };
  const plain = data?.['text/plain'];
  return typeof plain === 'string' ? plain : '';
}

/**
 * Load the extension in the notebook, unless a cell does. The notebook must work when it is opened
 * again.
 */
async function load(panel: NotebookPanel, kernel: Kernel.IKernelConnection): Promise<void> {
  const notebook = panel.content;
  const cells = notebook.widgets.map(one => one.model.sharedModel.getSource());
  if (cells.some(loadsSlurm) || notebook.model === null) {
    kernel.requestExecute({ code: LOAD, silent: true, store_history: false });
    return;
  }
  notebook.model.sharedModel.insertCell(0, { cell_type: 'code', source: LOAD });
  const [first] = notebook.widgets;
  if (first !== undefined) {
    await NotebookActions.runCells(notebook, [first], panel.sessionContext);
  }
}
