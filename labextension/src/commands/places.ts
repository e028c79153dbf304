// Commands that open a job's folder in the file browser, or its cell in a notebook.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { problemOf } from '../model/model';
import { isHeadless } from '../submit/executed';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Connection, Job } from '../wire';
import { cellText } from '../submit/cell';
import type { Cell } from '../submit/place';
import { say, warn } from './telling';
import { belowRoot, jobsIn } from './where';

/**
 * Open the job's working directory in the file browser, or else in the cluster's file browser. Copy
 * its path if neither shows it.
 */
export async function openFolder(
  app: JupyterFrontEnd,
  model: ISlurmModel,
  job: Job
): Promise<void> {
  const { folder } = await model.details(job.id);
  const wanted = folder || job.job_dir;
  const path = wanted === root().replace(/\/+$/, '') ? '/' : belowRoot(wanted, root());
  const here = path !== null && (await isLocal(model, job.cluster));
  if (here && app.commands.hasCommand('filebrowser:open-path') && (await isThere(app, path))) {
    await app.commands.execute('filebrowser:open-path', { path });
    return;
  }
  if (app.commands.hasCommand(CommandIDs.browse)) {
    const path = await thereOr(model, job, wanted);
    await app.commands.execute(CommandIDs.browse, { cluster: job.cluster, path });
    return;
  }
  Clipboard.copyToSystem(wanted);
  say(
    // The path comes last, since a long notification does not show its end.
    trans.__('Copied the path, which this file browser cannot show: %1 on %2', wanted, job.cluster)
  );
}

/** Return the path if it exists on the cluster, or else the job's own folder. */
async function thereOr(model: ISlurmModel, job: Job, path: string): Promise<string> {
  try {
    await model.callLoggedIn(job.cluster, 'file_entry', { path, cluster: job.cluster });
    return path;
  } catch (error) {
    if (problemOf(error).code !== 'not-found') {
      throw error;
    }
    // Before the login, the agent could not ask Slurm for the folder.
    const { folder } = await model.details(job.id);
    return folder === path ? job.job_dir : folder || job.job_dir;
  }
}

async function isLocal(model: ISlurmModel, cluster: string): Promise<boolean> {
  const known = model.connections.get(cluster);
  const all = known === undefined ? await model.call<Connection[]>('connections') : [known];
  return all.some(one => one.cluster === cluster && one.state === 'local');
}

/** Return whether the server shows this path. Hidden folders are shown only if configured. */
export async function isThere(app: JupyterFrontEnd, path: string): Promise<boolean> {
  try {
    await app.serviceManager.contents.get(path, { content: false });
    return true;
  } catch {
    return false;
  }
}

/**
 * Open the job's notebook at the cell that shows the job, or else at a cell with its code. Kernels
 * and notebook runs have no cell.
 */
export async function goToCell(app: JupyterFrontEnd, model: ISlurmModel, job: Job): Promise<void> {
  if (job.notebook === null) {
    say(trans.__('This job does not come from a notebook.'));
    return;
  }
  const path = belowRoot(job.notebook, root());
  if (path === null) {
    warn(trans.__("This file is outside Jupyter's root folder: %1", job.notebook));
    return;
  }
  if (!(await isThere(app, path))) {
    warn(trans.__('Not found: %1', job.notebook));
    return;
  }
  const panel: unknown = await app.commands.execute('docmanager:open', { path });
  if (!(panel instanceof NotebookPanel) || job.kind === 'kernel' || isHeadless(job)) {
    return;
  }
  await panel.context.ready;
  const cells = [...(panel.content.model?.cells ?? [])];
  const shown = cells.findIndex(cell => jobsIn(cell.toJSON()).includes(job.id));
  const at = shown < 0 ? await withCode(model, job, cells) : shown;
  if (at < 0) {
    say(trans.__('Cannot find the cell of this job in %1.', path));
    return;
  }
  await panel.revealed;
  panel.content.activeCellIndex = at;
  await panel.content.scrollToItem(at, 'center');
}

/** Return the index of a cell with the job's code, or -1. */
async function withCode(model: ISlurmModel, job: Job, cells: Cell['model'][]): Promise<number> {
  const { code } = await model.details(job.id);
  const texts = cells.map(({ sharedModel }) => cellText(sharedModel.getSource()));
  return texts.findIndex(({ line, body }) => line !== null && body.trim() === code?.trim());
}

function root(): string {
  return PageConfig.getOption('serverRoot');
}
