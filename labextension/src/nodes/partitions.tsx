// The partitions of a cluster as a table: free resources and limits.
import type { JSX } from 'react';
import { duration, memory, moment, visible } from '../format';
import { dotted } from '../language';
import { trans } from '../translation';
import type { Partition, Reservation } from '../wire';

interface Props {
  partitions: readonly Partition[];
  /** The partition whose nodes are shown; null for all. */
  only: string | null;
  choose: (name: string | null) => void;
}

export function Partitions({ partitions, only, choose }: Props): JSX.Element {
  return (
    <table className="jp-slurm-Table">
      <thead>
        <tr>
          <th scope="col">{trans.__('Partition')}</th>
          <th scope="col">{trans.__('Idle nodes')}</th>
          <th scope="col">{trans.__('Free GPUs')}</th>
          <th scope="col">{trans.__('Time limit')}</th>
          <th scope="col">{trans.__('Limit per job')}</th>
        </tr>
      </thead>
      <tbody>
        {partitions.map(one => (
          <tr key={one.name}>
            <th scope="row">
              <button
                className="jp-slurm-Chip"
                aria-pressed={only === one.name}
                title={trans.__('Show only the nodes of %1', one.name)}
                onClick={() => choose(only === one.name ? null : one.name)}
              >
                {one.name}
              </button>{' '}
              {one.default ? <span className="jp-slurm-Quiet">{trans.__('default')}</span> : null}{' '}
              {one.up ? null : (
                <span className="jp-slurm-State" data-tone="failed">
                  <span aria-hidden="true">✖ </span>
                  {trans.__('down')}
                </span>
              )}
            </th>
            <td>
              <Share free={one.idle_nodes} all={one.nodes} />
            </td>
            <td>
              <FreeGpus partition={one} />
            </td>
            <td>{one.limit_s === null ? trans.__('none') : duration(one.limit_s)}</td>
            <td>{canHave(one)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface FreeGpusProps {
  partition: Partition;
}

function FreeGpus({ partition }: FreeGpusProps): JSX.Element {
  const types = Object.entries(partition.gpus_by_type);
  return types.length === 0 ? (
    <span className="jp-slurm-Quiet">{trans.__('no GPUs')}</span>
  ) : (
    <>
      {types.map(([type, [all, free]]) => (
        <Share key={type} free={free} all={all} label={type} />
      ))}
    </>
  );
}

/** The limits of a job, and the users who may submit. */
function canHave(one: Partition): string {
  const most = one.max_nodes ?? one.nodes;
  return dotted([
    trans._n('%1 node', 'up to %1 nodes', most),
    one.cpus === null ? '' : trans._n('%1 CPU each', '%1 CPUs each', one.cpus),
    one.gpus_per_node > 0 ? trans._n('%1 GPU', '%1 GPUs', one.gpus_per_node) : '',
    one.memory_mib === null ? '' : memory(one.memory_mib),
    one.exclusive ? trans.__('whole nodes only') : '',
    one.allow_accounts.length > 0
      ? trans.__('accounts: %1', visible(one.allow_accounts.join(', ')))
      : '',
    one.allow_qos.length > 0 ? trans.__('QOS: %1', visible(one.allow_qos.join(', '))) : ''
  ]);
}

interface ReservationsProps {
  reservations: readonly Reservation[];
  nowS: number;
}

export function Reservations(props: ReservationsProps): JSX.Element | null {
  const { reservations, nowS } = props;
  if (reservations.length === 0) {
    return null;
  }
  return (
    <ul className="jp-slurm-Reservations" aria-label={trans.__('Reservations')}>
      {reservations.map(one => (
        <li key={one.name}>
          <span aria-hidden="true">{one.maintenance ? '⚒' : '⚑'} </span>
          {one.maintenance ? trans.__('Maintenance') : trans.__('Reservation')}{' '}
          {trans.__(
            '%1, from %2 to %3',
            visible(one.name),
            moment(one.start_s, nowS),
            moment(one.end_s, nowS)
          )}
          <span className="jp-slurm-Quiet"> {kept(one)}</span>
        </li>
      ))}
    </ul>
  );
}

function kept({ partitions }: Reservation): string {
  return Object.entries(partitions)
    .map(([name, count]) => trans._n('%2: %1 node', '%2: %1 nodes', count, name))
    .join(' · ');
}

interface ShareProps {
  /** The value; null if unknown. */
  free: number | null;
  all: number;
  label?: string;
}

/** A share as numbers and a small bar. */
export function Share({ free, all, label }: ShareProps): JSX.Element {
  const part = all === 0 || free === null ? 0 : free / all;
  return (
    <span className="jp-slurm-Share">
      <span className="jp-slurm-Bar" aria-hidden="true">
        <span style={{ width: `${100 * part}%` }} />
      </span>
      <span className="jp-slurm-Number">
        {free ?? '?'} / {all}
      </span>
      {label === undefined ? null : <span className="jp-slurm-Quiet"> {label}</span>}
    </span>
  );
}
