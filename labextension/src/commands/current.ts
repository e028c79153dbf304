// The current job: the job of the front panel, or of the active cell of the front notebook.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { targetsOf, type Target } from './targets';
import { jobsIn } from './where';

/** Arguments of a command for the current job, as in the palette. */
export const CURRENT = { current: true } as const;

/** Return the jobs on which a command acts. */
export function wantedBy(app: JupyterFrontEnd, args: ReadonlyPartialJSONObject): Target[] {
  const id = args.current === true ? currentJob(app) : null;
  return id === null ? targetsOf(args) : targetsOf({ id });
}

function currentJob({ shell }: JupyterFrontEnd): string | null {
  const front = shell.currentWidget;
  if (front instanceof NotebookPanel) {
    return jobsIn(front.content.activeCell?.model.toJSON())[0] ?? null;
  }
  if (front instanceof MainAreaWidget) {
    const { jobId } = front.content as { jobId?: unknown };
    return typeof jobId === 'string' ? jobId : null;
  }
  return null;
}
