// The welcome, which the sidebar shows where no cluster is known, and the ways to a cluster.
import type { CommandRegistry } from '@lumino/commands';
import { useId, type JSX } from 'react';
import { Marked } from '../marked';
import { told } from '../messages';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { useStart } from './starting';
import '../../style/welcome.css';

interface Props {
  model: ISlurmModel;
  commands: CommandRegistry;
}

export function Welcome({ model, commands }: Props): JSX.Element {
  return (
    <div className="jp-slurm-Welcome">
      <h3>{trans.__('Run cells on a cluster')}</h3>
      <p>
        <Marked
          text={trans.__(
            'Choose a cluster. Then run %1 and start a cell with %2.',
            '`%load_ext jupyter_slurm`',
            '`%%slurm`'
          )}
        />
      </p>
      <WaysToCluster model={model} commands={commands} />
      <Way
        label={trans.__('Open the quickstart')}
        about={trans.__('A notebook of examples')}
        busy={false}
        go={() => void commands.execute(CommandIDs.openQuickstart)}
      />
    </div>
  );
}

/** Connect to a cluster, or start one. */
export function WaysToCluster({ model, commands }: Props): JSX.Element {
  const [{ busy, step, problem }, start] = useStart(model);
  return (
    <>
      <Way
        label={trans.__('Connect to a cluster…')}
        about={trans.__('Any host over SSH')}
        busy={false}
        go={() => void commands.execute(CommandIDs.addCluster)}
      />
      <Way
        label={trans.__('Start one on this machine')}
        about={trans.__('A private Slurm of your own')}
        busy={busy}
        go={start}
      />
      <p className="jp-slurm-Quiet" role="status">
        {busy ? (step ?? trans.__('Starting…')) : ''}
      </p>
      {problem === null ? null : (
        <p className="jp-slurm-Problem" role="alert" title={problem.detail ?? ''}>
          {told(problem)}
        </p>
      )}
    </>
  );
}

interface WayProps {
  label: string;
  about: string;
  busy: boolean;
  go: () => void;
}

function Way({ label, about, busy, go }: WayProps): JSX.Element {
  const id = useId();
  return (
    <button
      type="button"
      className="jp-slurm-Way"
      aria-labelledby={`${id}label`}
      aria-describedby={`${id}about`}
      aria-disabled={busy}
      onClick={go}
    >
      <b id={`${id}label`}>{label}</b>
      <span id={`${id}about`}>{about}</span>
    </button>
  );
}
