// The plugin that adds the commands of jobs and clusters, which every view uses.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { addClusterCommands } from './clusters';
import { addJobCommands } from './jobs';
import { addCommand } from './telling';

const NEWS = 'jupyter-slurm-actions';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:commands',
  description: 'What a person does to jobs and clusters.',
  autoStart: true,
  requires: [ISlurmModel],
  activate: (app: JupyterFrontEnd, model: ISlurmModel) => {
    addJobCommands(app, model);
    addClusterCommands(app, model);
    addKeyCommands(app);
    const begin = (): void => {
      if (model.actions.length > 0) {
        model.changed.disconnect(begin);
        void tellOfActions(model);
      }
    };
    model.changed.connect(begin);
  }
};

/** What the keys of schema/commands.json do, where the focus is. */
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

async function tellOfActions(model: ISlurmModel): Promise<void> {
  const { ActionNews } = await import('./actions');
  new ActionNews(model, 'BroadcastChannel' in window ? new BroadcastChannel(NEWS) : null);
}
