// Content of the queue's cells besides text: an array's handle, and states with their signs.
import { memo, type JSX } from 'react';
import { isHeld, stateWord, tone, visible } from '../format';
import { Cells } from '../grid/cells';
import type { Shown } from '../grid/columns';
import { stateSign } from '../icons';
import { trans } from '../translation';
import type { Row } from '../wire';
import { taskCount } from '../tasks';
import { stateOf } from './columns';
import { isArray, stateCounts, type Line } from './listing';

interface Props {
  line: Line;
  shown: readonly Shown<Row>[];
  nowS: number;
  isOpen: boolean;
  expand: (line: Line, open: boolean) => void;
}

/** Memoized by line, so that scrolling redraws nothing. */
export const QueueCells = memo(function QueueCells(props: Props): JSX.Element {
  const { line, shown, nowS } = props;
  const content = (id: string, text: string, first: boolean): JSX.Element | null => {
    const inner =
      id === 'state' ? (
        <States line={line} />
      ) : id === 'id' && line.inside ? (
        <bdi>{text.slice(text.indexOf('_'))}</bdi>
      ) : id === 'name' ? (
        <Name line={line} />
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
  return <Cells item={line.row} shown={shown} nowS={nowS} content={content} />;
});

function Handle({ line, isOpen, expand }: Props): JSX.Element {
  if (!isArray(line)) {
    return <span className="jp-slurm-NoTwist" data-inside={line.inside} aria-hidden="true" />;
  }
  return (
    <button
      className="jp-slurm-Twist"
      aria-expanded={isOpen}
      aria-label={trans.__('Tasks of %1', line.row.slurm_id)}
      tabIndex={-1}
      onClick={event => {
        event.stopPropagation();
        expand(line, !isOpen);
      }}
      onDoubleClick={event => event.stopPropagation()}
    >
      <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
    </button>
  );
}

/** The name. An array also shows its number of unfinished tasks. */
function Name({ line: { row, tasks, inside } }: Pick<Props, 'line'>): JSX.Element {
  const name = <bdi>{visible(row.name)}</bdi>;
  if (inside || tasks.length === 0) {
    return name;
  }
  const listed = tasks.map(task => taskCount(task.slurm_id ?? ''));
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

/** The state. An array shows the count of each state. */
function States({ line }: Pick<Props, 'line'>): JSX.Element {
  const { row } = line;
  const held = !isArray(line) && isHeld(row.state, row.reason);
  const counts = isArray(line) ? stateCounts([row]) : [[row.state, 0] as const];
  return (
    <>
      {counts.map(([state, count]) => (
        <span key={state} className="jp-slurm-State" data-tone={tone(state)}>
          <span aria-hidden="true">{stateSign(state, held)} </span>
          {count > 0 ? `${count} ` : ''}
          {counts.length > 1 ? (
            <span className="jp-slurm-Unseen">{stateWord(state)} </span>
          ) : (
            stateOf({ ...row, state })
          )}
        </span>
      ))}
    </>
  );
}
