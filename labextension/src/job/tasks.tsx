// The tasks of a sweep or an array: a count for each state, the time left, and a grid with a cell
// for each task. A tooltip shows the details of a task, and a click or Enter selects it.
import {
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type JSX,
  type KeyboardEvent,
  type MouseEvent,
  type RefObject
} from 'react';
import { useClock } from '../clock';
import { addRow, type Counts } from '../counts';
import { isFinal, stateWord } from '../format';
import { listed, numeral } from '../language';
import { StateWord } from '../parts';
import { brief } from '../sidebar/words';
import { cellsIn, cellsOf, factsOf, leftS, progress, tally, type Cells, type Pace } from '../tasks';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job, SweepTasks } from '../wire';
import { cornerOf, layoutOf, moved, placeAt, type Layout } from './cells';
import { Painter } from './painter';
import '../../style/tasks.css';

/** The shortest time between two requests for details. */
const ASKED_MS = 2_000;
/** A sweep counts as retried if it started this many seconds before its present state. */
const SAME_START_S = 60;
const GAP_PX = 6;
/** The padding of the grid, for the frames around cells. */
const EDGE_PX = 2;

interface Props {
  job: Job;
  model: ISlurmModel;
  /** The task whose log is shown; null if none was selected. */
  chosen: number | null;
  choose: (task: number) => void;
  /** The height of the grid before its cells reach their smallest size. */
  heightPx: number;
}

export function TaskGrid({ job, model, chosen, choose, heightPx }: Props): JSX.Element {
  const { tasks, state } = job;
  const [wish, setOnly] = useState<string | null>(null);
  const all = useMemo(() => cellsOf({ tasks }), [tasks]);
  const counts = useMemo(() => {
    const found: Counts = new Map();
    addRow(found, { tasks, state });
    return found;
  }, [tasks, state]);
  const only = wish !== null && counts.has(wish) ? wish : null;
  const cells = useMemo(() => cellsIn(all, only), [all, only]);
  const total = [...counts.values()].reduce((sum, one) => sum + one, 0);
  return (
    <div>
      <div className="jp-slurm-TaskStates" role="group" aria-label={trans.__('Show')}>
        {[...counts].map(([one, count]) => (
          <button
            key={one}
            className="jp-slurm-Button"
            aria-pressed={one === only}
            onClick={() => setOnly(one === only ? null : one)}
          >
            <StateWord state={one} /> {numeral(count)}
          </button>
        ))}
        <TimeLeft job={job} />
      </div>
      <Grid {...{ job, model, cells, chosen, choose, heightPx }} />
      {all.indices.length < total ? (
        <p className="jp-slurm-Quiet">
          {trans.__('The first %1 of %2 tasks', numeral(all.indices.length), numeral(total))}
        </p>
      ) : null}
    </div>
  );
}

/** The time until all tasks have ended, at the rate so far. */
function TimeLeft({ job }: { job: Job }): JSX.Element | null {
  const { started_s: startedS, state_since_s: sinceS } = job;
  const nowS = useClock(isFinal(job.state) ? null : (startedS ?? job.created_s));
  const now = useMemo(() => tally(job.tasks), [job.tasks]);
  const from = useRef<Pace | null>(null);
  if (startedS !== null && (from.current === null || now.ended < from.current.ended)) {
    const isFirst = from.current === null && sinceS - startedS < SAME_START_S;
    from.current = isFirst ? { ended: 0, atS: startedS } : { ended: now.ended, atS: nowS };
  }
  const pace = from.current;
  const isUnknown = pace === null || job.problem !== null || isFinal(job.state);
  const left = isUnknown ? null : leftS(now, pace, nowS);
  return left === null ? null : (
    <span className="jp-slurm-Quiet" title={trans.__('Estimated from the rate so far')}>
      {trans.__('%1 left', brief(left))}
    </span>
  );
}

interface GridProps extends Props {
  cells: Cells;
}

function Grid({ job, model, cells, chosen, choose, heightPx }: GridProps): JSX.Element {
  const { tasks } = job;
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const id = useId();
  const width = useWidth(host);
  const layout = useMemo(
    () => layoutOf(cells.indices.length, width, heightPx),
    [cells.indices.length, width, heightPx]
  );
  usePainted(canvas, cells, width > 0 ? layout : null);
  // The task at the keyboard's cursor, the task under the pointer, and whether the keyboard is in
  // use.
  const [at, setAt] = useState(chosen);
  const [pointed, setPointed] = useState<number | null>(null);
  const [keyed, setKeyed] = useState(false);
  const description = useMemo(() => listed(progress({ tasks })), [tasks]);
  const found = cells.indices.indexOf(at ?? -1);
  const place = Math.max(0, found);
  const shown = pointed ?? (keyed ? (cells.indices[place] ?? null) : null);
  const details = useDetails(model, job, shown);
  const keys = (event: KeyboardEvent): void => {
    const task = cells.indices[place];
    const next = moved(layout, place, event.key);
    if (next !== null) {
      setPointed(null);
      setKeyed(true);
      setAt(cells.indices[next] ?? null);
    } else if (event.key === 'Escape' && shown !== null) {
      setPointed(null);
      setKeyed(false);
    } else if ((event.key === 'Enter' || event.key === ' ') && task !== undefined) {
      choose(task);
    } else {
      return;
    }
    event.preventDefault();
  };
  const taskUnder = (event: MouseEvent): number | null => {
    const box = canvas.current?.getBoundingClientRect();
    const under =
      box === undefined ? null : placeAt(layout, event.clientX - box.left, event.clientY - box.top);
    return under === null ? null : (cells.indices[under] ?? null);
  };
  const task = cells.indices[place];
  const known = useLines(details, cells, task ?? null);
  const shownWords = useLines(details, cells, shown);
  const shownPlace = shown === null ? -1 : cells.indices.indexOf(shown);
  return (
    <>
      <div
        ref={host}
        className="jp-slurm-Tasks"
        role="listbox"
        tabIndex={0}
        aria-label={trans.__('Tasks')}
        aria-description={description}
        aria-activedescendant={task === undefined ? undefined : `${id}task`}
        // Without this, the arrow keys would move between the cells of a notebook.
        data-lm-suppress-shortcuts="true"
        onKeyDown={keys}
        onFocus={event => setKeyed(event.currentTarget.matches(':focus-visible'))}
        onBlur={() => setKeyed(false)}
        onPointerMove={event => setPointed(taskUnder(event))}
        onPointerLeave={() => setPointed(null)}
        onClick={event => {
          const under = taskUnder(event);
          if (under !== null) {
            setAt(under);
            choose(under);
          }
        }}
      >
        <div
          className="jp-slurm-TaskCells"
          style={{ height: layout.rows * layout.pitch, width: layout.columns * layout.pitch }}
        >
          <canvas ref={canvas} aria-hidden="true" />
          <Mark kind="chosen" layout={layout} place={cells.indices.indexOf(chosen ?? -1)} />
          <Mark kind="at" layout={layout} place={shownPlace} follow={pointed === null} />
          {task === undefined ? null : (
            <span
              id={`${id}task`}
              className="jp-slurm-Unseen"
              role="option"
              aria-selected={task === chosen}
              aria-posinset={place + 1}
              aria-setsize={cells.indices.length}
            >
              {listed(known)}
            </span>
          )}
        </div>
      </div>
      {shown === null || shownPlace < 0 ? null : (
        <Tip
          lines={shownWords}
          canvas={canvas}
          {...cornerOf(layout, shownPlace)}
          pitch={layout.pitch}
        />
      )}
    </>
  );
}

interface MarkProps {
  kind: 'at' | 'chosen';
  layout: Layout;
  place: number;
  /** Scroll the task into view. */
  follow?: boolean;
}

/** A frame around a cell. */
function Mark({ kind, layout, place, follow = false }: MarkProps): JSX.Element | null {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (follow && place >= 0) {
      frame.current?.scrollIntoView({ block: 'nearest' });
    }
  }, [follow, place]);
  if (place < 0) {
    return null;
  }
  const { x, y } = cornerOf(layout, place);
  const style = { left: x, top: y, width: layout.pitch, height: layout.pitch };
  return <div ref={frame} className="jp-slurm-TaskMark" data-kind={kind} style={style} />;
}

interface TipProps {
  lines: readonly string[];
  canvas: RefObject<HTMLCanvasElement>;
  x: number;
  y: number;
  pitch: number;
}

/** The tooltip of a task, beside its cell. */
function Tip({ lines, canvas, x, y, pitch }: TipProps): JSX.Element {
  const tip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const [element, box] = [tip.current, canvas.current?.getBoundingClientRect()];
    if (element !== null && box !== undefined) {
      // The tooltip is in the top layer, since the grid clips its content.
      element.showPopover();
      const right = window.innerWidth - element.offsetWidth;
      const below = box.top + y + pitch + GAP_PX;
      const fits = below + element.offsetHeight <= window.innerHeight;
      const top = fits ? below : box.top + y - GAP_PX - element.offsetHeight;
      element.style.left = `${Math.max(0, Math.min(box.left + x, right))}px`;
      element.style.top = `${Math.max(0, top)}px`;
    }
  });
  return (
    <div {...{ popover: 'manual' }} ref={tip} role="tooltip" className="jp-slurm jp-slurm-TaskTip">
      {lines.map((line, at) => (
        <p key={at}>{line}</p>
      ))}
    </div>
  );
}

/** Return the lines of a task's tooltip; [] for null. */
function useLines(details: SweepTasks | null, cells: Cells, task: number | null): string[] {
  const facts = useMemo(
    () => (details === null || task === null ? [] : factsOf(details, task)),
    [details, task]
  );
  if (task === null) {
    return [];
  }
  const state = cells.states[cells.indices.indexOf(task)] ?? '';
  return [trans.__('Task %1 %2', task, stateWord(state)), ...facts];
}

/** Return the width of the grid inside its padding, 0 at first. */
function useWidth(host: RefObject<HTMLElement>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) {
      return undefined;
    }
    // A hidden element has no width, so keep the last one.
    const measure = (): void =>
      setWidth(before => (element.clientWidth > 0 ? element.clientWidth - 2 * EDGE_PX : before));
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [host]);
  return width;
}

/** Draw the cells again when they or the theme change. */
function usePainted(
  canvas: RefObject<HTMLCanvasElement>,
  cells: Cells,
  layout: Layout | null
): void {
  const painter = useRef<Painter | null>(null);
  const paint = useRef<() => void>();
  paint.current = () => {
    if (canvas.current !== null && layout !== null) {
      painter.current ??= new Painter(canvas.current);
      painter.current.paint(cells, layout);
    }
  };
  useLayoutEffect(() => paint.current?.(), [canvas, cells, layout]);
  useEffect(() => {
    const observer = new MutationObserver(() => paint.current?.());
    observer.observe(document.body, { attributeFilter: ['data-jp-theme-name'] });
    return () => observer.disconnect();
  }, []);
}

/**
 * Return the details of a sweep's tasks; null if unknown. They are requested when the user looks at
 * a task.
 */
function useDetails(model: ISlurmModel, job: Job, task: number | null): SweepTasks | null {
  const [details, setDetails] = useState<SweepTasks | null>(null);
  const askedMs = useRef(0);
  const { id, kind, revision } = job;
  const isWanted = task !== null && kind === 'sweep' && (details?.job.revision ?? -1) < revision;
  useEffect(() => {
    if (isWanted && Date.now() - askedMs.current >= ASKED_MS) {
      askedMs.current = Date.now();
      // Without an answer, only the states are shown.
      model.call<SweepTasks>('sweep', { job_id: id }).then(setDetails, () => undefined);
    }
  }, [model, id, isWanted, task]);
  return details;
}
