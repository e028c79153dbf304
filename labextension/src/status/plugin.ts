// The plugin of the status bar, of notifications about starts and ends, and of palette entries for
// views and job commands.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { IStatusBar } from '@jupyterlab/statusbar';
import { CURRENT } from '../commands/current';
import { CommandIDs, INotifier, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { StatusItem } from './item';
import { Notifier } from './notifier';
import { notifySettings, SETTINGS, translateSchema } from './settings';

const VIEWS = [CommandIDs.showSidebar, CommandIDs.openQueue, CommandIDs.openNodes];
const OF_A_JOB = [
  CommandIDs.openJob,
  CommandIDs.goToCell,
  CommandIDs.openFolder,
  CommandIDs.copyId,
  CommandIDs.hold,
  CommandIDs.release,
  CommandIDs.requeue,
  CommandIDs.extend,
  CommandIDs.cancel,
  CommandIDs.forget
];
const CHANNEL = 'jupyter-slurm';

export const plugin: JupyterFrontEndPlugin<INotifier> = {
  id: SETTINGS,
  description: 'The status bar item, notifications, and entries of the command palette.',
  autoStart: true,
  provides: INotifier,
  requires: [ISlurmModel],
  optional: [IStatusBar, ICommandPalette, ISettingRegistry, IStateDB],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    statusBar: IStatusBar | null,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null,
    state: IStateDB | null
  ) => {
    const category = trans.__('Slurm');
    for (const command of VIEWS) {
      palette?.addItem({ command, category });
    }
    for (const command of OF_A_JOB) {
      palette?.addItem({ command, category, args: CURRENT });
    }
    const channel = 'BroadcastChannel' in window ? new BroadcastChannel(CHANNEL) : null;
    const notifier = new Notifier(model, app.commands, channel, state);
    app.commands.addCommand(CommandIDs.mute, {
      label: trans.__('Mute this job'),
      caption: trans.__('Stop notifications about this job'),
      execute: ({ id }) => {
        if (typeof id === 'string') {
          notifier.mute(id);
        }
      }
    });
    if (registry !== null) {
      translateSchema(registry);
      void Promise.all([registry.load(SETTINGS), notifier.recall()]).then(([settings]) => {
        const follow = (): void => notifier.follow(notifySettings(settings.composite));
        settings.changed.connect(follow);
        follow();
      });
    }
    statusBar?.registerStatusItem(SETTINGS, {
      item: new StatusItem(model, app.commands),
      align: 'left',
      rank: 90
    });
    return notifier;
  }
};
