// The tasks of an array as a grid of states. A click shows the log of a task.
import {
  memo,
  useCallback,
  useMemo,
  useState,
  type CSSProperties,
  type JSX,
  type KeyboardEvent
} from 'react';
import { addRow, type Counts } from '../counts';
import { stateWord, tone } from '../format';
import { stateSign } from '../icons';
import { StateWord } from '../parts';
import { tasksOf } from '../tasks';
import { trans } from '../translation';
import type { Job } from '../wire';

interface Props {
  job: Job;
  /** The task whose log is shown; null: none was chosen. */
  chosen: number | null;
  choose: (task: number) => void;
}

export function TasksPane({ job, chosen, choose }: Props): JSX.Element {
  const { tasks, state } = job;
  const [wish, setOnly] = useState<string | null>(null);
  const [focused, setFocused] = useState(chosen);
  const all = useMemo(() => tasksOf({ tasks }), [tasks]);
  const counts = useMemo(() => {
    const found: Counts = new Map();
    addRow(found, { tasks, state });
    return found;
  }, [tasks, state]);
  const only = wish !== null && counts.has(wish) ? wish : null;
  const shown = all.filter(([, one]) => only === null || one === only);
  const total = [...counts.values()].reduce((sum, one) => sum + one, 0);
  const first = shown.some(([index]) => index === focused) ? focused : shown[0]?.[0];
  const digits = String(all.at(-1)?.[0] ?? 0).length;
  return (
    <div className="jp-slurm-Details">
      <div className="jp-slurm-TaskStates" role="group" aria-label={trans.__('Show')}>
        {[...counts].map(([one, count]) => (
          <button
            key={one}
            className="jp-slurm-Button"
            aria-pressed={one === only}
            onClick={() => setOnly(one === only ? null : one)}
          >
            <StateWord state={one} /> {count}
          </button>
        ))}
      </div>
      <div
        className="jp-slurm-Tasks"
        role="group"
        aria-label={trans.__('Tasks')}
        style={{ '--jp-slurm-digits': digits } as CSSProperties}
        onKeyDown={moveFocus}
      >
        {shown.map(([index, one]) => (
          <Task
            key={index}
            index={index}
            state={one}
            isChosen={index === chosen}
            isFirst={index === first}
            choose={choose}
            focus={setFocused}
          />
        ))}
      </div>
      {all.length < total ? (
        <p className="jp-slurm-Quiet">{trans.__('The first %1 of %2 tasks', all.length, total)}</p>
      ) : null}
    </div>
  );
}

interface TaskProps {
  index: number;
  state: string;
  isChosen: boolean;
  /** The Tab key focuses it. */
  isFirst: boolean;
  choose: (task: number) => void;
  focus: (task: number) => void;
}

/** Memoized: an array has thousands. */
const Task = memo(function Task(props: TaskProps): JSX.Element {
  const { index, state, isChosen, isFirst, choose, focus } = props;
  const name = trans.__('Task %1 %2', index, stateWord(state));
  const look = useCallback(() => choose(index), [choose, index]);
  return (
    <button
      className="jp-slurm-Task"
      data-tone={tone(state)}
      aria-label={name}
      aria-current={isChosen}
      title={name}
      tabIndex={isFirst ? 0 : -1}
      onClick={look}
      onFocus={() => focus(index)}
    >
      <span className="jp-slurm-State" data-tone={tone(state)} aria-hidden="true">
        {stateSign(state)}
      </span>{' '}
      {index}
    </button>
  );
});

/** Move the focus by arrows, Home and End. */
function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const all = [...event.currentTarget.children].filter(one => one instanceof HTMLElement);
  const at = all.findIndex(one => one === document.activeElement);
  const top = all[0]?.offsetTop ?? 0;
  const next = all.findIndex(one => one.offsetTop > top);
  const columns = next < 0 ? all.length : next;
  const places: Record<string, number> = {
    ArrowRight: at + 1,
    ArrowLeft: at - 1,
    ArrowDown: at + columns,
    ArrowUp: at - columns,
    Home: 0,
    End: all.length - 1
  };
  const wanted = all[places[event.key] ?? -1];
  if (wanted !== undefined) {
    event.preventDefault();
    wanted.focus();
  }
}
