// The dashboards of a running job, and the command that opens one.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { addCommand, warn } from '../commands/telling';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { dashboardUrl, newTab } from './room';

export type Dashboard = 'ray' | 'dask' | 'tensorboard';

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
        id: { type: 'string', description: 'The id of a job that runs.' },
        name: { type: 'string', enum: ['ray', 'dask', 'tensorboard'] }
      }
    },
    execute: ({ id, name: wanted }) => {
      const job = typeof id === 'string' ? model.jobs.get(id) : undefined;
      const name = job && dashboardsOf(job).find(one => one === wanted);
      if (job && name && !newTab().enter(dashboardUrl(job.id, name))) {
        warn(trans.__('This browser lets no tab be opened. Its own settings say why.'));
      }
    }
  });
}
