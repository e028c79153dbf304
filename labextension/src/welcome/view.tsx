// The welcome view of the sidebar, and the buttons that connect to a cluster or start a cluster.
import type { CommandRegistry } from '@lumino/commands';
import { useId, useState, type JSX } from 'react';
import { visible } from '../format';
import { Marked } from '../marked';
import { told } from '../messages';
import { problemOf } from '../model/model';
import { CommandIDs, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Problem } from '../wire';
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

interface NoClusterProps extends Props {
  /** The removed cluster, if others exist; undefined if no cluster was removed. */
  removed?: string;
}

/** The content of a view without a cluster. */
export function NoCluster({ removed, model, commands }: NoClusterProps): JSX.Element {
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

/** Buttons that connect to a cluster, or start a cluster. */
function WaysToCluster({ model, commands }: Props): JSX.Element {
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
        label={trans.__('Start a local cluster')}
        about={trans.__('A private Slurm on this machine')}
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

/** The answer of `POST up`. */
interface Start {
  said: string[];
  done: boolean;
}

interface Starting {
  busy: boolean;
  /** The current step. */
  step: string | null;
  problem: Problem | null;
}

const RESTING: Starting = { busy: false, step: null, problem: null };

/**
 * Return the progress, and a function that starts the cluster. It stays busy until the model has
 * the cluster.
 */
function useStart(model: ISlurmModel): [Starting, () => void] {
  const [starting, setStarting] = useState(RESTING);
  const begin = async (): Promise<void> => {
    setStarting({ ...RESTING, busy: true });
    try {
      await started(model, step => setStarting({ ...RESTING, busy: true, step }));
    } catch (error) {
      setStarting({ ...RESTING, problem: problemOf(error) });
    }
  };
  return [
    starting,
    () => {
      if (!starting.busy) {
        void begin();
      }
    }
  ];
}

async function started(model: ISlurmModel, tell: (step: string | null) => void): Promise<void> {
  for (;;) {
    const { said, done } = await model.call<Start>('up');
    tell(said.at(-1) ?? null);
    if (done) {
      // Make the agent read the new profile.
      await model.call('clusters');
      return;
    }
  }
}
