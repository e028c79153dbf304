// The plugin of labs that there are: their commands, and warnings before they end. The form that
// starts one is submit/plugin.ts's.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { CURRENT } from '../commands/current';
import { CommandIDs, ISlurmModel } from '../tokens';
import { Warnings } from '../warnings';
import { addLabCommands } from './commands';
import { addDashboardCommand } from './dashboards';
import { interpret } from './interpreter';
import { endingSoon, isLab } from './words';

const CHANNEL = 'jupyter-slurm:labs';
/** server/lab_room.html's. */
const ROOM = 'jupyter-slurm:room';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:labs',
  description: 'Labs: JupyterLab on a node.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ) => {
    const trans = (translator ?? nullTranslator).load('jupyter_slurm');
    addLabCommands(app, model, trans);
    addDashboardCommand(app, model, trans);
    for (const command of [CommandIDs.openLab, CommandIDs.copyLabLink]) {
      palette?.addItem({ command, category: trans.__('Slurm'), args: CURRENT });
    }
    if ('BroadcastChannel' in window) {
      interpret(new BroadcastChannel(ROOM), trans, translator?.languageCode ?? 'en');
    }
    const channel = 'BroadcastChannel' in window ? new BroadcastChannel(CHANNEL) : null;
    new Warnings(
      model,
      {
        is: isLab,
        told: (job, left) => endingSoon(job, left, trans),
        label: trans.__('Open the lab'),
        act: job => void app.commands.execute(CommandIDs.openLab, { id: job.id })
      },
      channel
    );
  }
};
