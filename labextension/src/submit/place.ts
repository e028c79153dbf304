// A cell of an open notebook, and its run.
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';

export type Cell = NonNullable<Notebook['activeCell']>;
type CodeCell = ReturnType<Notebook.IContentFactory['createCodeCell']>;

/** A cell and its notebook. */
export interface Place {
  panel: NotebookPanel;
  cell: Cell;
}

export function isCode(cell: Cell): cell is CodeCell {
  return cell.model.type === 'code';
}

/** Return the last run of the cell in this page; undefined before the first run. */
export function runOf(place: Place | null): CodeCell['outputArea']['future'] | undefined {
  return place !== null && isCode(place.cell) ? place.cell.outputArea.future : undefined;
}
