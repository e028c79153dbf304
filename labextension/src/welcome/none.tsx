// What every view but the sidebar shows where its cluster is not known: that, and the way to the
// welcome.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { visible } from '../format';
import '../../style/welcome.css';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';

interface Props {
  /** The one that was there, while there are others; undefined: there is none. */
  removed?: string;
  commands: CommandRegistry;
}

export function NoCluster({ removed, commands }: Props): JSX.Element {
  if (removed !== undefined) {
    return (
      <div className="jp-slurm-NoCluster">
        <p>{trans.__('Cluster %1 was removed', visible(removed))}</p>
      </div>
    );
  }
  return (
    <div className="jp-slurm-NoCluster">
      <p>{trans.__('No cluster yet')}</p>
      <button
        type="button"
        className="jp-slurm-Button"
        onClick={() => void commands.execute(CommandIDs.showSidebar)}
      >
        {trans.__('Set up a cluster…')}
      </button>
    </div>
  );
}
