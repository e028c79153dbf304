// The plugin with the commands of jobs and clusters.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { addClusterCommands } from './clusters';
import { addJobCommands } from './jobs';
import { addCommand } from './telling';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:commands',
  description: 'Commands of jobs and clusters.',
  autoStart: true,
  requires: [ISlurmModel],
  activate: (app: JupyterFrontEnd, model: ISlurmModel) => {
    addJobCommands(app, model);
    addClusterCommands(app, model);
    addKeyCommands(app);
  }
};

/** Add the commands of the shortcuts in schema/commands.json. */
function addKeyCommands({ commands }: JupyterFrontEnd): void {
  const here = (selector: string): HTMLElement | null | undefined =>
    document.activeElement?.closest('.jp-slurm')?.querySelector<HTMLElement>(selector);
  addCommand(commands, CommandIDs.find, {
    label: trans.__('Find in the output'),
    execute: () => {
      const field = here('.jp-slurm-LogSearch input');
      if (field instanceof HTMLInputElement) {
        field.select();
      }
    }
  });
  addCommand(commands, CommandIDs.sendForm, {
    label: trans.__('Submit'),
    execute: () => here('.jp-slurm-Submit .jp-mod-accept')?.click()
  });
}
