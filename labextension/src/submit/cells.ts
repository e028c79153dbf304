// The cells of forms and of *Submit again*, loaded on demand.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Widget } from '@lumino/widgets';
import { cellText } from './cell';
import { localPath, type Form, type Front } from './commands';
import { lineOf, NO_WISHES, wishesOf, type Wishes } from './form';
import { cellSource } from './notebook';
import type { Place } from './place';
import type { CellSource, Ran } from './source';

/** Return the cell of a form from before a reload. Its notebook may open later. */
export function cellOf(
  { app, notebooks }: Pick<Front, 'app' | 'notebooks'>,
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
  return cellSource(id, notebook, find, shower(app));
}

/** Open a form for the active cell; return undefined if no cell is active. */
export async function openCell(front: Front): Promise<Form | undefined> {
  const { app, notebooks, open } = front;
  const panel = notebooks?.currentWidget;
  const cell = notebooks?.activeCell;
  if (panel == null || cell == null) {
    return undefined;
  }
  const path = localPath(app, panel.context.path) ?? panel.context.localPath;
  const { line } = cellText(cell.model.sharedModel.getSource());
  const find = (): Place | null => (cell.isDisposed || panel.isDisposed ? null : { panel, cell });
  return open(
    cellSource(cell.model.id, path, find, shower(app)),
    // Set only the options in the cell's line.
    line === null ? undefined : { ...NO_WISHES, ...wishesOf(line) }
  );
}

/** Change options in the cell's line, and run the cell. */
export async function runAgain(
  app: JupyterFrontEnd,
  place: Place,
  changes: Partial<Wishes>
): Promise<Ran> {
  const line = cellText(place.cell.model.sharedModel.getSource()).line ?? '';
  const path = place.panel.context.localPath;
  const source = cellSource(place.cell.model.id, path, () => place, shower(app));
  return source.run(lineOf({ ...wishesOf(line), ...changes }));
}

function shower({ shell }: JupyterFrontEnd): (panel: Widget) => void {
  return panel => shell.activateById(panel.id);
}
