// The plugin that opens a Jupyter terminal in a running job.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { terminalIcon } from '@jupyterlab/ui-components';
import { CURRENT } from '../commands/current';
import { addCommands } from '../commands/jobs';
import { isOurs, jobOf, stateOf, type Target } from '../commands/targets';
import { isRunning } from '../format';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';

/** JupyterLab's command for an existing terminal. */
const OPEN = 'terminal:open';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:terminals',
  description: 'A terminal in a running job.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, model: ISlurmModel, palette: ICommandPalette | null) => {
    addCommands(app, [
      {
        id: CommandIDs.openTerminal,
        label: trans.__('Open a terminal'),
        caption: trans.__('On the node of the running job, in its image'),
        icon: terminalIcon,
        fits: target => mayRun(model, target),
        execute: async ([target]) => {
          if (target !== undefined && isOurs(target)) {
            await open(app, model, await jobOf(model, target.id));
          }
        }
      }
    ]);
    palette?.addItem({
      command: CommandIDs.openTerminal,
      category: trans.__('Slurm'),
      args: CURRENT
    });
  }
};

function mayRun(model: ISlurmModel, target: Target): boolean {
  const state = stateOf(model, target);
  const job = target.id === null ? undefined : model.jobs.get(target.id);
  // A step cannot join an array, since each of its tasks is a job for Slurm.
  const isArray = Object.keys(job?.tasks ?? {}).length > 0;
  return isOurs(target) && !isArray && (state === null || isRunning(state));
}

async function open(app: JupyterFrontEnd, model: ISlurmModel, job: Job): Promise<void> {
  const node = await nodeOf(job);
  if (node === undefined) {
    return;
  }
  const { name } = await model.callLoggedIn<{ name: string }>(job.cluster, 'terminal', {
    job_id: job.id,
    node
  });
  if (app.commands.hasCommand(OPEN)) {
    await app.commands.execute(OPEN, { name });
  } else {
    // Notebook 7 shows each terminal on its own page.
    const { baseUrl } = app.serviceManager.serverSettings;
    window.open(URLExt.join(baseUrl, 'terminals', name), '_blank', 'noopener');
  }
}

/**
 * The node that the user chooses from several; null for the job's first, undefined if the user
 * cancelled.
 */
async function nodeOf({ nodes }: Job): Promise<string | null | undefined> {
  if (nodes.length < 2) {
    return null;
  }
  const { value } = await InputDialog.getItem({
    title: trans.__('Open a terminal'),
    label: trans.__('Node'),
    items: [...nodes]
  });
  return value ?? undefined;
}
