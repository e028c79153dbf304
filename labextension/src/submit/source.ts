// The source of a job: a text, a file of the server, or a cell of an open notebook.
import type { Job } from '../wire';

/** A cell; its notebook may change or close. */
export interface CellSource {
  kind: 'cell';
  /** The ID of the cell. */
  cell: string;
  /** The notebook's path below the server's root. */
  notebook: string;
  /** Return the text below its `%%slurm` line; '': the cell is gone. */
  body: () => string;
  /** Put the line on top and run the cell. Rejects if the cell is gone. */
  run: (line: string) => Promise<Ran>;
}

/** A cell that runs. */
export interface Ran {
  /** The ID of its job; null: the run ended without one. */
  job: Promise<string | null>;
}

/** `lab` runs JupyterLab only; `kernel` adds a kernelspec and runs nothing. */
export type Source =
  | { kind: 'lab' }
  | { kind: 'kernel' }
  | { kind: 'code'; code: string }
  | { kind: 'file'; path: string }
  | CellSource;

/** Tell whether the form can make such a job. */
export function isRepeatable(job: Job): boolean {
  return ['cell', 'program', 'script', 'lab'].includes(job.kind);
}

/** Return the path of the file or notebook; '': none. */
export function pathOf(source: Source): string {
  return source.kind === 'file' ? source.path : source.kind === 'cell' ? source.notebook : '';
}
