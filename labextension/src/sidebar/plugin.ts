// The plugin that adds the sidebar.
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { addCommand } from '../commands/telling';
import { slurmIcon } from '../icons';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { SlurmSidebar } from './widget';

const RANK = 600;

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:sidebar',
  description: 'The sidebar with clusters and my jobs.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ILayoutRestorer],
  activate: (app: JupyterFrontEnd, model: ISlurmModel, restorer: ILayoutRestorer | null) => {
    const sidebar = new SlurmSidebar(model, app.commands);
    // Notebook 7 has no restorer. In Notebook 7, too, `activateById` opens the left side.
    restorer?.add(sidebar, sidebar.id);
    app.shell.add(sidebar, 'left', { rank: RANK });
    addCommand(app.commands, CommandIDs.showSidebar, {
      label: trans.__('Show Slurm jobs'),
      caption: trans.__('Clusters and my jobs, in the sidebar'),
      icon: slurmIcon,
      execute: async () => {
        await Promise.resolve(); // wait until the palette has returned the focus
        app.shell.activateById(sidebar.id);
      }
    });
  }
};
