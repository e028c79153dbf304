// The table of nodes.
import { useDeferredValue, useMemo, useState, type JSX } from 'react';
import { Cells } from '../grid/cells';
import { NOTHING } from '../grid/choice';
import { shownOf, type Arrangement } from '../grid/columns';
import { Grid } from '../grid/grid';
import { Heads } from '../grid/head';
import { ordered } from '../grid/order';
import { testOf } from '../grid/terms';
import type { Node } from '../wire';
import { byName, condition } from './nodes';
import { columnsOf } from './columns';

interface Props {
  nodes: readonly Node[];
  words: string;
  arrangement: Arrangement;
  arrange: (next: Arrangement) => void;
  label: string;
  nowS: number;
}

export function NodesTable(props: Props): JSX.Element {
  const { nodes, arrangement, arrange, nowS } = props;
  const words = useDeferredValue(props.words);
  const columns = useMemo(columnsOf, []);
  const shown = useMemo(() => shownOf(columns, arrangement), [columns, arrangement]);
  const { sorting } = arrangement;
  const rows = useMemo(() => {
    const wanted = columns.find(({ id }) => id === sorting.column);
    const found = nodes.filter(testOf(words, columns, 0));
    return ordered([], found, wanted, sorting, byName).map(node => ({ key: node.name, node }));
  }, [nodes, words, columns, sorting]);
  const [choice, choose] = useState(NOTHING);
  return (
    <Grid
      label={props.label}
      listing={`${words}\n${sorting.column} ${sorting.down}`}
      rows={rows}
      columns={{ shown, head: <Heads {...{ shown, arrangement, arrange }} /> }}
      cells={({ node }) => (
        <Cells
          item={node}
          shown={shown}
          nowS={nowS}
          content={(id, text) =>
            id === 'state' ? (
              <span className="jp-slurm-State" data-tone={TONES[condition(node)]}>
                <span aria-hidden="true">{SIGNS[condition(node)]} </span>
                {text}
              </span>
            ) : null
          }
        />
      )}
      choice={choice}
      choose={choose}
    />
  );
}

const SIGNS = { idle: '○', mixed: '◐', full: '●', out: '✕' } as const;
const TONES = { idle: 'done', mixed: 'running', full: 'running', out: 'failed' } as const;
