// What every view but the sidebar shows where no cluster is known: that, and the way to the welcome.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSX } from 'react';

interface Props {
  /** Shows the sidebar. */
  welcome: () => void;
  trans: TranslationBundle;
}

export function NoCluster({ welcome, trans }: Props): JSX.Element {
  return (
    <div className="jp-slurm-NoCluster">
      <p>{trans.__('No cluster yet')}</p>
      <button type="button" className="jp-slurm-Button" onClick={welcome}>
        {trans.__('Set up a cluster…')}
      </button>
    </div>
  );
}
