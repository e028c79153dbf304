// The plugin of the nodes' panel in the main area; what it shows is in the files beside it.
import { panelPlugin } from '../grid/panel';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';

export const plugin = panelPlugin(
  'jupyter-slurm:nodes',
  'The nodes of a cluster, and what is free.',
  () => ({
    name: 'nodes',
    command: CommandIDs.openNodes,
    label: trans.__('Slurm nodes'),
    caption: trans.__('What is free on a cluster'),
    title: cluster => trans.__('Nodes of %1', cluster),
    className: 'jp-slurm-NodesPanel',
    load: () => import('./view')
  })
);
