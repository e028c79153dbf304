// The plugin of running labs: their commands, and warnings before they end. submit/plugin.ts
// defines the form that starts a lab.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { CURRENT } from '../commands/current';
import { warnOfEnds } from '../ending';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { addLabCommands } from './commands';
import { addDashboardCommand } from './dashboards';
import { endingSoon, isLab } from './words';

const CHANNEL = 'jupyter-slurm:labs';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:labs',
  description: 'Labs: JupyterLab on a node.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, model: ISlurmModel, palette: ICommandPalette | null) => {
    addLabCommands(app, model);
    addDashboardCommand(app, model);
    for (const command of [CommandIDs.openLab, CommandIDs.copyLabLink]) {
      palette?.addItem({ command, category: trans.__('Slurm'), args: CURRENT });
    }
    // Run commands for the buttons of the waiting room (server/lab_room.html). This page has no
    // commands of its own.
    window.addEventListener('message', ({ origin, data }: MessageEvent<unknown>) => {
      const { command, id } = Object(data) as Record<string, unknown>;
      const known: unknown[] = [CommandIDs.resubmit, CommandIDs.openJob];
      if (origin === location.origin && known.includes(command) && typeof id === 'string') {
        void app.commands.execute(String(command), { id });
      }
    });
    warnOfEnds(
      model,
      {
        is: isLab,
        told: endingSoon,
        label: trans.__('Open lab'),
        act: job => void app.commands.execute(CommandIDs.openLab, { id: job.id })
      },
      CHANNEL
    );
  }
};
