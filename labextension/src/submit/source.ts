// The source of a job: a text, a file of the server, or a cell of an open notebook.
import type { Job } from '../wire';

/** A cell. Its notebook may change or close. */
export interface CellSource {
  kind: 'cell';
  /** The ID of the cell. */
  cell: string;
  /** The notebook's path below the server's root. */
  notebook: string;
  /** Return the text below its `%%slurm` line; '' if the cell no longer exists. */
  body: () => string;
  /** Put the line at the top of the cell, and run the cell. Reject if the cell no longer exists. */
  run: (line: string) => Promise<Ran>;
}

/** A cell that is running. */
export interface Ran {
  /** The ID of its job; null if the run ended without a job. */
  job: Promise<string | null>;
}

/** `lab` only runs JupyterLab. `kernel` adds a kernelspec and runs nothing. */
export type Source =
  | { kind: 'lab' }
  | { kind: 'kernel' }
  | { kind: 'code'; code: string }
  | { kind: 'file'; path: string }
  | CellSource;

/** Return whether the form can create such a job. */
export function isRepeatable(job: Job): boolean {
  return ['cell', 'program', 'script', 'lab'].includes(job.kind);
}

/** Return the path of the file or notebook; '' if the form has neither. */
export function pathOf(source: Source): string {
  return source.kind === 'file' ? source.path : source.kind === 'cell' ? source.notebook : '';
}
