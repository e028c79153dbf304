// The plugin of the quickstart and of adding a cluster. The sidebar shows the welcome view.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { addCommand } from '../commands/telling';
import { connectIcon, slurmIcon } from '../icons';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';

const PATH = 'quickstart.ipynb';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:welcome',
  description: 'The dialogs that add a cluster, and the quickstart.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, model: ISlurmModel, palette: ICommandPalette | null) => {
    addCommand(app.commands, CommandIDs.openQuickstart, {
      label: trans.__('Open the quickstart'),
      caption: trans.__('A notebook of examples'),
      icon: slurmIcon,
      execute: async () => {
        const { isThere } = await import('../commands/places');
        // The user may have changed the notebook.
        if (!(await isThere(app, PATH))) {
          const { quickstart } = await import('./quickstart');
          await app.serviceManager.contents.save(PATH, {
            type: 'notebook',
            format: 'json',
            content: quickstart(model.hasNoCluster)
          });
        }
        await app.commands.execute('docmanager:open', { path: PATH });
      }
    });
    addCommand(app.commands, CommandIDs.addCluster, {
      label: trans.__('Connect to a cluster…'),
      caption: trans.__('Any host over SSH'),
      icon: connectIcon,
      execute: async () => {
        await app.commands.execute(CommandIDs.showSidebar); // this shows the progress of the login
        const { addCluster } = await import('./adding');
        await addCluster(model);
      }
    });
    palette?.addItem({ command: CommandIDs.addCluster, category: trans.__('Slurm') });
    palette?.addItem({ command: CommandIDs.openQuickstart, category: trans.__('Slurm') });
  }
};
