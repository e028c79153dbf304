// What the cells of the queue hold beside their text: an array's handle, states with their signs.
import { memo, type JSX } from 'react';
import { isHeld, stateWord, tone, visible } from '../format';
import { Cells } from '../grid/cells';
import type { Shown } from '../grid/columns';
import { stateSign } from '../icons';
import { trans } from '../translation';
import type { QueueEntry } from '../wire';
import { taskCount } from '../tasks';
import { nameOf, stateOf } from './columns';
import { isArray, shownEntry, stateCounts, type Row } from './listing';

interface Props {
  row: Row;
  shown: readonly Shown<QueueEntry>[];
  nowS: number;
  isOpen: boolean;
  expand: (row: Row, open: boolean) => void;
}

/** The same for the same row: while it is scrolled nothing of it is made anew. */
export const QueueCells = memo(function QueueCells(props: Props): JSX.Element {
  const { row, shown, nowS } = props;
  const content = (id: string, text: string, first: boolean): JSX.Element | null => {
    const inner =
      id === 'state' ? (
        <States row={row} />
      ) : id === 'id' && row.inside ? (
        <bdi>{text.slice(text.indexOf('_'))}</bdi>
      ) : id === 'name' ? (
        <Name row={row} />
      ) : first ? (
        <bdi>{text}</bdi>
      ) : null;
    return first ? (
      <>
        <Handle {...props} />
        {inner}
      </>
    ) : (
      inner
    );
  };
  return <Cells item={shownEntry(row)} shown={shown} nowS={nowS} content={content} />;
});

function Handle({ row, isOpen, expand }: Props): JSX.Element {
  if (!isArray(row)) {
    return <span className="jp-slurm-NoTwist" data-inside={row.inside} aria-hidden="true" />;
  }
  return (
    <button
      className="jp-slurm-Twist"
      aria-expanded={isOpen}
      aria-label={trans.__('Tasks of %1', row.key)}
      tabIndex={-1}
      onClick={event => {
        event.stopPropagation();
        expand(row, !isOpen);
      }}
      onDoubleClick={event => event.stopPropagation()}
    >
      <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
    </button>
  );
}

/** The name; of an array how many tasks are listed. */
function Name({ row }: Pick<Props, 'row'>): JSX.Element {
  const name = <bdi>{visible(nameOf(row.entry))}</bdi>;
  if (row.entry.array_id == null || row.inside) {
    return name;
  }
  const listed = row.tasks.map(task => taskCount(task.slurm_id));
  const count = listed.reduce<number>((sum, one) => sum + (one ?? 1), 0);
  return (
    <>
      {name}{' '}
      {count > 1 ? (
        <span className="jp-slurm-Quiet">
          {listed.includes(null)
            ? trans.__('over %1 tasks', count)
            : trans._n('%1 task', '%1 tasks', count)}
        </span>
      ) : null}
    </>
  );
}

/** The state; of an array how many there are of each. */
function States({ row }: Pick<Props, 'row'>): JSX.Element {
  const held = !isArray(row) && isHeld(row.entry.state, row.entry.reason);
  const counts = isArray(row) ? stateCounts(row.tasks) : [[row.entry.state, 0] as const];
  return (
    <>
      {counts.map(([state, count]) => (
        <span key={state} className="jp-slurm-State" data-tone={tone(state)}>
          <span aria-hidden="true">{stateSign(state, held)} </span>
          {count > 0 ? `${count} ` : ''}
          {counts.length > 1 ? (
            <span className="jp-slurm-Unseen">{stateWord(state)} </span>
          ) : (
            stateOf({ ...row.entry, state })
          )}
        </span>
      ))}
    </>
  );
}
