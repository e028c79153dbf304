// What every view but the sidebar shows where its cluster is not known: that, and the ways to one.
import type { CommandRegistry } from '@lumino/commands';
import type { JSX } from 'react';
import { visible } from '../format';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { WaysToCluster } from './view';

interface Props {
  /** The one that was there, while there are others; undefined: there is none. */
  removed?: string;
  model: ISlurmModel;
  commands: CommandRegistry;
}

export function NoCluster({ removed, model, commands }: Props): JSX.Element {
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
      <WaysToCluster model={model} commands={commands} />
    </div>
  );
}
