// The buttons that open the dashboards of a running job.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import { dashboardsOf, type Dashboard } from './dashboards';

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
          title={trans.__('In a tab of the browser, as soon as it is ready')}
          onClick={() => void commands.execute(CommandIDs.openDashboard, { id: job.id, name })}
        >
          {title(name)}
        </button>
      ))}
    </>
  );
}
