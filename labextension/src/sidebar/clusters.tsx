// The clusters and their connections: state, age, and actions.
import type { CommandRegistry } from '@lumino/commands';
import { moment, visible } from '../format';
import { ageWords } from '../grid/freshness';
import { isSame, toldBeside } from '../messages';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Cluster, Connection } from '../wire';
import type { JSX } from 'react';

interface Props {
  model: ISlurmModel;
  commands: CommandRegistry;
  nowS: number;
}

export function ClusterList({ model, commands, nowS }: Props): JSX.Element {
  const untold = (queue: Freshness | null): Freshness | null =>
    model.freshness.problem !== null && isSame(queue?.problem, model.freshness.problem)
      ? null
      : queue;
  return (
    <ul className="jp-slurm-Clusters" aria-label={trans.__('Clusters')}>
      {model.clusters.map(cluster => (
        <ClusterRow
          key={cluster.name}
          cluster={cluster}
          several={model.clusters.length > 1}
          connection={model.connections.get(cluster.name)}
          queue={untold(model.queues.get(cluster.name) ?? null)}
          commands={commands}
          nowS={nowS}
        />
      ))}
    </ul>
  );
}

interface RowProps {
  cluster: Cluster;
  /** With several clusters, a problem has no line of its own. */
  several: boolean;
  connection: Connection | undefined;
  /** The problem; null without a problem, or if it is shown once for all clusters. */
  queue: Freshness | null;
  commands: CommandRegistry;
  nowS: number;
}

function ClusterRow({ cluster, several, connection, queue, ...shared }: RowProps): JSX.Element {
  const { commands, nowS } = shared;
  const state = connection?.state ?? 'closed';
  const problem = connection?.problem ?? cluster.problem;
  const trouble = problem ? toldBeside(problem) : troubleOf(queue, nowS);
  const words = stateWords()[state];
  const since =
    state === 'local' || !connection?.since_s
      ? ''
      : trans.__('since %1', moment(connection.since_s, nowS));
  const full = `${words} ${since}`.trim();
  const hosts = connection?.hosts.join(' → ') ?? cluster.host;
  const detail = (problem ?? queue?.problem)?.detail;
  const inLine = several && trouble !== '';
  return (
    <li className="jp-slurm-Cluster" data-state={trouble === '' ? state : 'trouble'}>
      <div
        className="jp-slurm-ClusterLine"
        title={[hosts, full, trouble, detail].filter(Boolean).join('\n')}
      >
        <span aria-hidden="true">{trouble === '' ? SIGNS[state] : '!'}</span>
        <span className="jp-slurm-ClusterName">{visible(cluster.name)}</span>
        <span
          className={inLine || SAYS_MORE.has(state) ? 'jp-slurm-ClusterState' : 'jp-slurm-Unseen'}
          role={inLine ? 'status' : undefined}
        >
          {inLine ? trouble : SAYS_MORE.has(state) ? words : full}
        </span>
        <Action cluster={cluster.name} state={state} commands={commands} />
      </div>
      {trouble === '' || several ? null : (
        <p className="jp-slurm-Problem" role="status" title={trouble}>
          {trouble}
        </p>
      )}
    </li>
  );
}

/** Return the problem of the cluster's queue; '' if Slurm answers. */
function troubleOf(queue: Freshness | null, nowS: number): string {
  if (queue === null) {
    return '';
  }
  const { asOf, problem } = queue;
  const why = problem?.message ?? '';
  if (asOf === null) {
    return why === '' ? '' : trans.__('Queue unknown: %1', why);
  }
  return ageWords(queue, why, moment(asOf, nowS), nowS);
}

interface ActionProps {
  cluster: string;
  state: Connection['state'];
  commands: CommandRegistry;
}

function Action({ cluster, state, commands }: ActionProps): JSX.Element | null {
  if (state === 'local') {
    return null;
  }
  const leaves = state === 'open' || state === 'lost' || state === 'connecting';
  const id = leaves ? CommandIDs.disconnect : CommandIDs.connect;
  const label = leaves
    ? trans.__('Disconnect')
    : state === 'asking'
      ? trans.__('Answer…')
      : trans.__('Connect');
  return (
    <button
      className="jp-slurm-Button"
      aria-label={`${label} ${cluster}`}
      onClick={() => void commands.execute(id, { cluster })}
    >
      {label}
    </button>
  );
}

const SIGNS: Record<Connection['state'], string> = {
  local: '●',
  open: '●',
  connecting: '◌',
  asking: '?',
  lost: '◌',
  closed: '○',
  'login-needed': '○'
};

/** The states whose word says more than the sign and the button. */
const SAYS_MORE: ReadonlySet<string> = new Set<Connection['state']>([
  'local',
  'connecting',
  'lost'
]);

function stateWords(): Record<Connection['state'], string> {
  return {
    local: trans.__('this machine'),
    open: trans.__('connected'),
    connecting: trans.__('connecting'),
    asking: trans.__('waits for an answer'),
    lost: trans.__('reconnecting'),
    closed: trans.__('not connected'),
    'login-needed': trans.__('login needed')
  };
}
