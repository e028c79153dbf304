// The queue of a cluster: the bar, the grid, and a text if the queue is empty.
import type { CommandRegistry } from '@lumino/commands';
import { useCallback, useDeferredValue, useMemo, useState, type JSX } from 'react';
import { useNow } from '../clock';
import { openMenu } from '../commands/menu';
import { argsOf, type Target } from '../commands/targets';
import { NOTHING } from '../grid/choice';
import { ColumnsMenu } from '../grid/columns_menu';
import { shownOf, type Arrangement } from '../grid/columns';
import { FreshnessLine, knownS } from '../grid/freshness';
import { Grid } from '../grid/grid';
import { Heads } from '../grid/head';
import { useLook, type PanelProps } from '../grid/cluster_panel';
import { FilterField, SubmitButton } from '../grid/parts';
import { Switch } from '../parts';
import { CommandIDs } from '../tokens';
import { trans } from '../translation';
import { Actions, filterHelp, StateChips, STEERING } from './bar';
import { QueueCells } from './cells';
import { targetsOf } from './choice';
import { columnsOf } from './columns';
import { arraysOf, isArray, linesOf, stateCounts, type Line } from './listing';
import { usualLook, type Look } from './look';
import { useFound, useOrder, usePrepared, useQueue } from './state';
import '../../style/queue.css';

export { lookOf } from './look';

export function View(props: PanelProps<Look>): JSX.Element {
  const { cluster, model, commands } = props;
  const [look, change] = useLook(props);
  const arrange = (arrangement: Arrangement): void => change({ arrangement });
  const { arrangement, everyone } = look;
  const [words, setWords] = useState('');
  const [choice, setChoice] = useState(NOTHING);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const asked = useDeferredValue(words);
  const columns = useMemo(columnsOf, []);
  const shown = useMemo(() => shownOf(columns, arrangement), [columns, arrangement]);
  const queue = useQueue(model, cluster, everyone);
  const freshness = queue.view?.freshness;
  const clockS = useNow();
  const nowS = knownS(freshness, clockS);
  const order = useOrder(queue, columns, arrangement.sorting);
  const found = useFound(order, asked, columns);
  const arrays = useMemo(() => arraysOf(order), [order]);
  const rows = useMemo(() => linesOf(found, arrays, open), [found, arrays, open]);
  usePrepared(order, columns);
  const counts = useMemo(() => stateCounts(order), [order]);
  const count = useMemo(
    () => (choice.keys.size === 0 ? 0 : rows.filter(row => choice.keys.has(row.key)).length),
    [rows, choice.keys]
  );
  const targets = useMemo(() => targetsOf(cluster, rows, choice.keys), [cluster, rows, choice]);
  const expand = useCallback((row: Line, wanted: boolean): void => {
    if (isArray(row)) {
      setOpen(before => {
        const next = new Set(before);
        next.delete(row.key);
        return wanted ? next.add(row.key) : next;
      });
    }
  }, []);
  const targetsOfRow = (row: Line): Target[] => targetsOf(cluster, [row], new Set([row.key]));
  const hasData = freshness?.asOf != null;
  return (
    <div className="jp-slurm-QueueBody">
      <div className="jp-slurm-QueueBar">
        <FilterField
          label={trans.__('Filter the queue')}
          placeholder={trans.__('Filter: words, user:ana, state:pending, gpus>0')}
          title={filterHelp()}
          words={words}
          setWords={setWords}
        />
        <Switch
          label={trans.__('Owner')}
          ways={[
            [true, trans.__('Everyone')],
            [false, trans.__('Mine')]
          ]}
          chosen={everyone}
          choose={value => change({ everyone: value })}
        />
        <ColumnsMenu
          all={columns}
          arrangement={arrangement}
          arrange={arrange}
          usual={usualLook().arrangement}
        />
        <FreshnessLine freshness={freshness} />
      </div>
      <div className="jp-slurm-QueueStates" role="group" aria-label={trans.__('States')}>
        <StateChips counts={counts} words={words} setWords={setWords} />
        <span className="jp-slurm-Quiet" role="status">
          {hasData && asked.trim() !== '' ? trans._n('%1 row', '%1 rows', rows.length) : ''}
        </span>
        <Actions commands={commands} chosen={count} targets={targets} />
      </div>
      <Grid
        label={trans.__('Queue – %1', cluster)}
        isOld={nowS !== clockS}
        listing={`${asked}\n${everyone}\n${arrangement.sorting.column} ${arrangement.sorting.down}`}
        rows={rows}
        columns={{ shown, head: <Heads {...{ shown, arrangement, arrange }} /> }}
        cells={row => (
          <QueueCells
            line={row}
            shown={shown}
            nowS={nowS}
            isOpen={open.has(row.key)}
            expand={expand}
          />
        )}
        choice={choice}
        choose={setChoice}
        onExpand={expand}
        onOpen={row => {
          if (targetsOfRow(row).length > 0) {
            void commands.execute(CommandIDs.openJob, argsOf(targetsOfRow(row)));
          }
        }}
        onDelete={() => {
          if (targets.length > 0) {
            void commands.execute(CommandIDs.cancel, argsOf(targets));
          }
        }}
        onMenu={(row, event) => {
          const meant = choice.keys.has(row.key) ? targets : targetsOfRow(row);
          event.preventDefault();
          openMenu(commands, meant, STEERING, { x: event.clientX, y: event.clientY });
        }}
      />
      {hasData && rows.length === 0 ? (
        <Nothing
          filtered={asked.trim() !== ''}
          everyone={everyone}
          clear={() => setWords('')}
          commands={commands}
          cluster={cluster}
        />
      ) : null}
    </div>
  );
}

interface NothingProps {
  filtered: boolean;
  everyone: boolean;
  clear: () => void;
  commands: CommandRegistry;
  cluster: string;
}

function Nothing(props: NothingProps): JSX.Element {
  const { filtered, everyone, clear, commands, cluster } = props;
  return (
    <p className="jp-slurm-Nothing">
      {filtered
        ? trans.__('No jobs match the filter.')
        : everyone
          ? trans.__('The queue is empty.')
          : trans.__('You have no jobs in this queue.')}{' '}
      {filtered ? (
        <button className="jp-slurm-Button" onClick={clear}>
          {trans.__('Show all')}
        </button>
      ) : (
        <SubmitButton commands={commands} cluster={cluster} />
      )}
    </p>
  );
}
