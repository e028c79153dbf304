// The plugin of labs that there are: their commands, and warnings before they end. The form that
// starts one is submit/plugin.ts's.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';
import { CURRENT } from '../commands/current';
import { warnOfEnds } from '../ending';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { addLabCommands } from './commands';
import { addDashboardCommand } from './dashboards';
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
    addLabCommands(app, model);
    addDashboardCommand(app, model);
    for (const command of [CommandIDs.openLab, CommandIDs.copyLabLink]) {
      palette?.addItem({ command, category: trans.__('Slurm'), args: CURRENT });
    }
    if ('BroadcastChannel' in window) {
      const room = new BroadcastChannel(ROOM);
      // It takes the channel over, and this first message.
      room.onmessage = async message => {
        const { interpret } = await import('./interpreter');
        interpret(room, translator?.languageCode ?? 'en');
        room.onmessage?.(message);
      };
    }
    warnOfEnds(
      model,
      {
        is: isLab,
        told: endingSoon,
        label: trans.__('Open the lab'),
        act: job => void app.commands.execute(CommandIDs.openLab, { id: job.id })
      },
      CHANNEL
    );
  }
};
