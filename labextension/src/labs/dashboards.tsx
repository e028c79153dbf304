// The dashboards of a running job: the command that opens one, and their buttons.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { addCommand, warn } from '../commands/telling';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { dashboardUrl, newTab } from './room';

type Dashboard = 'ray' | 'dask' | 'tensorboard';

export function dashboardsOf(job: Job): Dashboard[] {
  if (job.state !== 'RUNNING') {
    return [];
  }
  const engine = 'launch' in job ? job.launch : null;
  return [
    ...(engine === 'ray' || engine === 'dask' ? [engine] : []),
    ...(job.kind === 'cell' && job.tensorboard !== null ? ['tensorboard' as const] : [])
  ];
}

export function addDashboardCommand(app: JupyterFrontEnd, model: ISlurmModel): void {
  addCommand(app.commands, CommandIDs.openDashboard, {
    label: trans.__('Open a dashboard'),
    takes: {
      type: 'object',
      required: ['id', 'name'],
      properties: {
        id: { type: 'string', description: 'The ID of a running job.' },
        name: { type: 'string', enum: ['ray', 'dask', 'tensorboard'] }
      }
    },
    execute: ({ id, name: wanted }) => {
      const job = typeof id === 'string' ? model.jobs.get(id) : undefined;
      const name = job && dashboardsOf(job).find(one => one === wanted);
      if (job && name && !newTab().enter(dashboardUrl(job.id, name))) {
        warn(trans.__('The browser blocked the new tab. Allow pop-ups for this page.'));
      }
    }
  });
}

function title(name: Dashboard): string {
  switch (name) {
    case 'ray':
      return trans.__("Open Ray's dashboard");
    case 'dask':
      return trans.__("Open Dask's dashboard");
    default:
      return trans.__('Open TensorBoard');
  }
}

interface Props {
  job: Job;
  commands: CommandRegistry;
}

export function DashboardButtons({ job, commands }: Props): JSX.Element {
  return (
    <>
      {dashboardsOf(job).map(name => (
        <button
          key={name}
          className="jp-slurm-Button"
          title={trans.__('Open in a new tab when ready')}
          onClick={() => void commands.execute(CommandIDs.openDashboard, { id: job.id, name })}
        >
          {title(name)}
        </button>
      ))}
    </>
  );
}
