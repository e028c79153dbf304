// The job that is looked at: that of the panel in front, or of the active cell of the notebook there.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { targetsOf, type Target } from './targets';
import { jobsIn } from './where';

/** For a command that is meant for that job, as in the palette. */
export const CURRENT = { current: true } as const;

/** The jobs that a command is meant for. */
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
