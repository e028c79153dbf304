// The plugin of the panel of nodes in the main area.
import { panelPlugin } from '../grid/panel';
import { nodesIcon } from '../icons';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';

export const plugin = panelPlugin('jupyter-slurm:nodes', 'The nodes of a cluster.', () => ({
  name: 'nodes',
  command: CommandIDs.openNodes,
  label: trans.__('Slurm nodes'),
  icon: nodesIcon,
  caption: trans.__('Free nodes and GPUs of a cluster'),
  title: cluster => trans.__('Nodes – %1', cluster),
  className: 'jp-slurm-NodesPanel',
  load: () => import('./view')
}));
