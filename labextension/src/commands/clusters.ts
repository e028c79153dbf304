// The commands that connect and disconnect a cluster.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { LabIcon } from '@jupyterlab/ui-components';
import { connectIcon, disconnectIcon } from '../icons';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { say, tell } from './telling';

const describedBy = {
  args: {
    type: 'object',
    properties: {
      cluster: { type: 'string', description: "The cluster's name." }
    },
    required: ['cluster']
  }
} as const;

export function addClusterCommands(app: JupyterFrontEnd, model: ISlurmModel): void {
  const add = (
    id: string,
    label: string,
    caption: string,
    icon: LabIcon,
    execute: (cluster: string) => Promise<unknown>
  ): void => {
    app.commands.addCommand(id, {
      label,
      caption,
      icon,
      describedBy,
      isEnabled: args => typeof args.cluster === 'string',
      execute: async ({ cluster }) => {
        try {
          await execute(cluster as string);
        } catch (error) {
          tell(error, label);
        }
      }
    });
  };
  add(
    CommandIDs.connect,
    trans.__('Connect'),
    trans.__('Log in to the cluster'),
    connectIcon,
    async cluster => {
      if (!(await model.connect(cluster))) {
        say(trans.__('Login to %1 cancelled.', cluster));
      }
    }
  );
  add(
    CommandIDs.disconnect,
    trans.__('Disconnect'),
    trans.__('Close the connection; jobs continue'),
    disconnectIcon,
    cluster => model.call('disconnect', { cluster })
  );
}
