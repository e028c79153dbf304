// The nodes of a cluster: a table of partitions, and a map or a table of the nodes.
import { useCallback, useMemo, useState, type JSX } from 'react';
import { useNow } from '../clock';
import { remembered, usual, type Arrangement } from '../grid/columns';
import { ColumnsMenu } from '../grid/columns_menu';
import { useFeed } from '../grid/feed';
import { FreshnessLine, knownS } from '../grid/freshness';
import { useLook, type PanelProps } from '../grid/cluster_panel';
import { FilterField } from '../grid/parts';
import { Switch } from '../parts';
import type { NodesView } from '../tokens';
import { trans } from '../translation';
import type { Node } from '../wire';
import { columnsOf, conditionWords } from './columns';
import { condition, CONDITIONS, type Condition } from './nodes';
import { Partitions, Reservations } from './partitions';
import { NodeMap } from './map';
import { NodesTable } from './table';
import '../../style/grid.css';
import '../../style/nodes.css';

type Shown = Pick<NodesView, 'nodes' | 'partitions' | 'reservations'>;
const NONE: Shown = { nodes: [], partitions: [], reservations: [] };

type Look = Readonly<{
  arrangement: Arrangement;
  as: 'map' | 'table';
}>;

function usualLook(): Look {
  const arrangement = usual(columnsOf(), { column: 'node', down: false });
  return { arrangement, as: 'map' };
}

export function lookOf(value: unknown): Look {
  const otherwise = usualLook();
  const { arrangement, as } = (value ?? {}) as Partial<Look>;
  return {
    arrangement: remembered(arrangement, otherwise.arrangement),
    as: as === 'table' ? 'table' : otherwise.as
  };
}

export function View(props: PanelProps<Look>): JSX.Element {
  const { cluster, model } = props;
  const open = useCallback(() => model.nodes(cluster), [model, cluster]);
  const { view } = useFeed(open);
  const [look, change] = useLook(props);
  const [only, setOnly] = useState<string | null>(null);
  const [how, setHow] = useState<Condition | null>(null);
  const [words, setWords] = useState('');
  const clockS = useNow();
  const nowS = knownS(view?.freshness, clockS);
  const { nodes, partitions, reservations }: Shown = view ?? NONE;
  const within = useMemo(
    () => nodes.filter(node => only === null || node.partitions.includes(only)),
    [nodes, only]
  );
  const shown = useMemo(
    () => within.filter(node => how === null || condition(node) === how),
    [within, how]
  );
  const isTable = look.as === 'table';
  const arrange = (arrangement: Arrangement): void => change({ arrangement });
  return (
    <div className="jp-slurm-Nodes" data-as={look.as} data-old={nowS !== clockS}>
      <div className="jp-slurm-NodesTop">
        <div className="jp-slurm-NodesHead">
          <h2>{trans.__('Partitions')}</h2>
          <FreshnessLine freshness={view?.freshness} />
        </div>
        <Partitions partitions={partitions} only={only} choose={setOnly} />
        <Reservations reservations={reservations} nowS={nowS} />
      </div>
      <div className="jp-slurm-NodesHead">
        <h2>{only === null ? trans.__('Nodes') : trans.__('Nodes – %1', only)}</h2>
        <Conditions nodes={within} how={how} choose={setHow} />
        {isTable ? (
          <>
            <FilterField
              label={trans.__('Filter the nodes')}
              placeholder={trans.__('Filter: words, type:a100, gpus>0')}
              words={words}
              setWords={setWords}
            />
            <ColumnsMenu
              all={columnsOf()}
              arrangement={look.arrangement}
              arrange={arrange}
              usual={usualLook().arrangement}
            />
          </>
        ) : null}
        <Switch
          label={trans.__('View')}
          ways={[
            ['map', trans.__('Map')],
            ['table', trans.__('Table')]
          ]}
          chosen={look.as}
          choose={as => change({ as })}
        />
      </div>
      {isTable ? (
        <NodesTable
          nodes={shown}
          words={words}
          arrangement={look.arrangement}
          arrange={arrange}
          label={trans.__('Nodes – %1', cluster)}
          nowS={nowS}
        />
      ) : (
        <>
          <NodeMap nodes={shown} />
          <Out nodes={shown} />
        </>
      )}
    </div>
  );
}

interface ConditionsProps {
  nodes: readonly Node[];
  how: Condition | null;
  choose: (how: Condition | null) => void;
}

/** The legend: a count for each state. A click filters by it. */
function Conditions({ nodes, how, choose }: ConditionsProps): JSX.Element {
  const words = conditionWords();
  return (
    <span className="jp-slurm-Legend" role="group" aria-label={trans.__('States')}>
      {CONDITIONS.map(one => {
        const count = nodes.filter(node => condition(node) === one).length;
        return count === 0 && how !== one ? null : (
          <button
            key={one}
            className="jp-slurm-Chip"
            aria-pressed={how === one}
            onClick={() => choose(how === one ? null : one)}
          >
            <span className="jp-slurm-Node" data-condition={one} aria-hidden="true" />
            {words[one]} <span className="jp-slurm-Number">{count}</span>
          </button>
        );
      })}
    </span>
  );
}

/** The unavailable nodes and their reasons. The table has a column for the reason. */
function Out({ nodes }: { nodes: readonly Node[] }) {
  const out = nodes.filter(node => condition(node) === 'out');
  return out.length === 0 ? null : (
    <>
      <h2>{trans.__('Unavailable nodes')}</h2>
      <table className="jp-slurm-Table">
        <thead>
          <tr>
            <th scope="col">{trans.__('Node')}</th>
            <th scope="col">{trans.__('State')}</th>
            <th scope="col">{trans.__('Reason')}</th>
          </tr>
        </thead>
        <tbody>
          {groupsOf(out).map(([key, names, { state, reason }]) => (
            <tr key={key}>
              <th scope="row">{names.join(', ')}</th>
              <td>{state}</td>
              <td>
                <bdi>{reason ?? ''}</bdi>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** Group nodes with the same state and reason. */
function groupsOf(nodes: readonly Node[]): [string, string[], Node][] {
  const groups = new Map<string, [string, string[], Node]>();
  for (const node of nodes) {
    const key = `${node.state}\n${node.reason ?? ''}`;
    const group = groups.get(key) ?? [key, [], node];
    group[1].push(node.name);
    groups.set(key, group);
  }
  return [...groups.values()];
}
