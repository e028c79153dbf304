// What a job is made of: a text, a file of the server's, or a cell of a notebook that is open.
// No view; how a cell is run is notebook.ts's.
import type { Job } from '../wire';

/** A cell as the form needs it, while the notebook may change or be closed. */
export interface CellSource {
  kind: 'cell';
  /** The cell's own id in it. */
  cell: string;
  /** Of the notebook, relative to the server's root. */
  notebook: string;
  /** What is below its `%%slurm` line now; '': it is no longer there. */
  body: () => string;
  /** Puts the line on top of it and runs it, as its user would. Rejects: it is no longer there. */
  run: (line: string) => Promise<Ran>;
}

/** A cell that was begun. */
export interface Ran {
  /** The id of its job, once its output names one; null: it has ended without. */
  job: Promise<string | null>;
}

/** `lab`: nothing is run but JupyterLab; `kernel`: nothing is run yet, a kernelspec is made. */
export type Source =
  | { kind: 'lab' }
  | { kind: 'kernel' }
  | { kind: 'code'; code: string }
  | { kind: 'file'; path: string }
  | CellSource;

/** Tells whether the form can make a job of this kind. */
export function isRepeatable(job: Job): boolean {
  return ['cell', 'program', 'script', 'lab'].includes(job.kind);
}

/** Returns the path of the file or the notebook that it is made of; '': of none. */
export function pathOf(source: Source): string {
  return source.kind === 'file' ? source.path : source.kind === 'cell' ? source.notebook : '';
}
