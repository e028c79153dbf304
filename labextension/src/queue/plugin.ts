// The plugin of the queue's panel in the main area.
import { listIcon } from '@jupyterlab/ui-components';
import { panelPlugin } from '../grid/panel';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';

export const plugin = panelPlugin('jupyter-slurm:queue', 'The whole queue of a cluster.', () => ({
  name: 'queue',
  command: CommandIDs.openQueue,
  label: trans.__('Slurm queue'),
  icon: listIcon,
  caption: trans.__('All jobs on a cluster'),
  title: cluster => trans.__('Queue – %1', cluster),
  className: 'jp-slurm-Queue',
  load: () => import('./view')
}));
