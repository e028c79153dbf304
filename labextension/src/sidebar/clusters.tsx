// The clusters and the ways to them: state, since when, what to do about it.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { exactly } from '../exactly';
import { moment, visible } from '../format';
import { isSame, said, toldBeside } from '../messages';
import { CommandIDs, type Freshness, type ISlurmModel } from '../tokens';
import type { Cluster, Connection } from '../wire';
import type { Queues } from './queues';
import type { JSX } from 'react';

interface Props {
  model: ISlurmModel;
  queues: Queues;
  commands: CommandRegistry;
  trans: TranslationBundle;
  nowS: number;
}

export function ClusterList({ model, queues, commands, trans, nowS }: Props): JSX.Element {
  const untold = (queue: Freshness | null): Freshness | null =>
    isSame(queue?.problem, model.freshness.problem) ? null : queue;
  return (
    <ul className="jp-slurm-Clusters" aria-label={trans.__('Clusters')}>
      {model.clusters.map(cluster => (
        <ClusterRow
          key={cluster.name}
          cluster={cluster}
          connection={model.connections.get(cluster.name)}
          queue={untold(queues.freshness(cluster.name))}
          commands={commands}
          trans={trans}
          nowS={nowS}
        />
      ))}
    </ul>
  );
}

interface RowProps {
  cluster: Cluster;
  connection: Connection | undefined;
  /** null: there is nothing to say of it, or it was said of all. */
  queue: Freshness | null;
  commands: CommandRegistry;
  trans: TranslationBundle;
  nowS: number;
}

function ClusterRow({ cluster, connection, queue, ...shared }: RowProps): JSX.Element {
  const { commands, trans, nowS } = shared;
  const state = connection?.state ?? 'closed';
  const problem = connection?.problem ?? cluster.problem;
  const hosts = connection?.hosts.join(' → ') ?? cluster.host ?? '';
  return (
    <li className="jp-slurm-Cluster" data-state={state}>
      <div className="jp-slurm-ClusterLine">
        <span className="jp-slurm-ClusterName" title={hosts}>
          {visible(cluster.name)}
        </span>
        <span className="jp-slurm-ClusterState">
          <span aria-hidden="true">{SIGNS[state]} </span>
          {stateWords(trans)[state]}
          <Since connection={connection} trans={trans} nowS={nowS} />
        </span>
        <Action cluster={cluster.name} state={state} commands={commands} trans={trans} />
      </div>
      {problem ? (
        <p className="jp-slurm-Problem" title={problem.detail ?? ''}>
          {toldBeside(problem, trans)}
        </p>
      ) : null}
      {queue?.problem && !problem ? (
        <p className="jp-slurm-Problem" role="status" title={queue.problem.detail ?? ''}>
          {queue.asOf === null
            ? trans.__('Its queue is not known: %1', said(queue.problem.message, trans))
            : trans.__(
                'As of %1; since then: %2',
                moment(queue.asOf, nowS),
                said(queue.problem.message, trans)
              )}
        </p>
      ) : null}
    </li>
  );
}

interface SinceProps {
  connection: Connection | undefined;
  trans: TranslationBundle;
  nowS: number;
}

/** Of a way that comes and goes. */
function Since({ connection, trans, nowS }: SinceProps): JSX.Element | null {
  if (connection === undefined || connection.state === 'local' || connection.since_s <= 0) {
    return null;
  }
  return (
    <time
      dateTime={new Date(connection.since_s * 1000).toISOString()}
      title={exactly(connection.since_s)}
    >
      {` ${trans.__('since %1', moment(connection.since_s, nowS))}`}
    </time>
  );
}

interface ActionProps {
  cluster: string;
  state: Connection['state'];
  commands: CommandRegistry;
  trans: TranslationBundle;
}

function Action({ cluster, state, commands, trans }: ActionProps): JSX.Element | null {
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
      onClick={() => void commands.execute(id, { cluster, isShown: true })}
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

function stateWords(trans: TranslationBundle): Record<Connection['state'], string> {
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
