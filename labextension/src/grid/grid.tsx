// A virtual grid for very many rows of equal height, which draws only visible rows. Rows stay in
// place in the scrolled box and change their content, so that no area is blank. A tree is a grid
// whose rows have levels. The grid identifies rows only by their keys.
import {
  useCallback,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type JSX,
  type KeyboardEvent,
  type MouseEvent,
  type RefObject
} from 'react';
import { chosen, type Choice, type Choosing } from './choice';
import '../../style/grid.css';

const ROW_PX = 24;
const SPARE = 4;

/** A row of a tree: its depth, and whether it is open; null if it cannot open. */
interface Branch {
  level: number;
  open: boolean | null;
}

interface Props<R extends { key: string }> {
  label: string;
  rows: readonly R[];
  /** Heads and widths in pixels; undefined if each row is one cell as wide as the box. */
  columns?: { head: JSX.Element; shown: readonly { width: number }[] };
  /** Return the current key for a row's old key. */
  keyNow?: (key: string) => string;
  cells: (row: R) => JSX.Element;
  /** The branch of a row, in a tree. */
  branch?: (row: R) => Branch;
  /** The text of a row for screen readers; undefined for the text of its cells. */
  sentence?: (row: R) => string;
  choice: Choice;
  choose: (next: Choice) => void;
  /** Return whether *Select all* includes the row. */
  isChosenWithAll?: (row: R) => boolean;
  onOpen?: (row: R) => void;
  onDelete?: (row: R) => void;
  onExpand?: (row: R, open: boolean) => void;
  onMenu?: (row: R, event: MouseEvent) => void;
  /** True if the rows may be outdated. */
  isOld?: boolean;
  /** The name of the listing. Another listing starts at its top. */
  listing: string;
}

interface Active {
  key: string;
  at: number;
}

export function Grid<R extends { key: string }>(props: Props<R>): JSX.Element {
  const { rows, columns, choice, listing } = props;
  const count = rows.length;
  const find = useFind(rows, props.keyNow);
  const box = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<Active>({ key: '', at: 0 });
  const { top, height, onScroll } = useScroll(box, rows, find, listing);
  const known = find(active.key);
  const at = Math.min(known < 0 ? active.at : known, count - 1);
  const headPx = columns === undefined ? 0 : ROW_PX;
  const seen = Math.max(0, height - headPx);
  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE);
  const last = Math.min(count, Math.ceil((top + seen) / ROW_PX) + SPARE);
  const focus = useRef(false);

  const choose = (next: number, how: Choosing): void =>
    props.choose(chosen(choice, rows, find, next, how));
  const go = (goal: number, how: Choosing): void => {
    const next = Math.min(count - 1, Math.max(0, goal));
    const row = rows[next];
    if (row === undefined) {
      return;
    }
    setActive({ key: row.key, at: next });
    choose(next, how);
    focus.current = true;
    const element = box.current;
    if (element !== null) {
      const least = (next + 1) * ROW_PX - seen;
      element.scrollTop = Math.max(least, Math.min(element.scrollTop, next * ROW_PX));
    }
  };
  const had = box.current?.contains(document.activeElement) ?? false;
  useLayoutEffect(() => {
    // Removing a row would also remove the focus, and later keys would be lost.
    if (focus.current || (had && document.activeElement === document.body)) {
      const row = box.current?.querySelector<HTMLElement>(`[data-at="${at}"]`);
      (row ?? box.current)?.focus({ preventScroll: true });
      focus.current = false;
    }
  });
  const keys = (event: KeyboardEvent): void => {
    if (event.target instanceof Element && event.target.closest('[role="columnheader"]')) {
      return;
    }
    const row = rows[at];
    const goal = goalOf(event.key, at, count, Math.max(1, Math.floor(seen / ROW_PX) - 1));
    if (goal !== null) {
      go(goal, event.shiftKey ? 'range' : 'only');
    } else if (event.key === ' ') {
      choose(at, 'add');
    } else if (event.key === 'a' && (event.ctrlKey || event.metaKey)) {
      const all = rows.filter(props.isChosenWithAll ?? (() => true));
      props.choose({ ...choice, keys: new Set(all.map(({ key }) => key)) });
    } else if (row === undefined) {
      return;
    } else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
      props.onExpand?.(row, event.key === 'ArrowRight');
    } else if (event.key === 'Enter') {
      props.onOpen?.(row);
    } else if (event.key === 'Delete') {
      props.onDelete?.(row);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  // The active row is drawn even when it is not visible, so that it keeps the focus.
  const inSight = rows.slice(first, last).map((row, more) => [row, first + more] as const);
  const away = at < first || at >= last ? rows.slice(at, at + 1) : [];
  const whole = headPx + count * ROW_PX;
  const headRows = columns === undefined ? 0 : 1;
  const width = columns?.shown.reduce((sum, column) => sum + column.width, 0);
  return (
    <div
      className="jp-slurm-Grid"
      role={props.branch === undefined ? 'grid' : 'treegrid'}
      aria-label={props.label}
      aria-rowcount={count + headRows}
      aria-colcount={columns?.shown.length ?? 1}
      aria-multiselectable="true"
      data-old={props.isOld ?? false}
      tabIndex={-1}
      ref={box}
      onKeyDown={keys}
      onScroll={onScroll}
    >
      <div style={{ height: whole, minWidth: width }}>
        <div className="jp-slurm-GridSeen" style={{ height: Math.min(whole, height) }}>
          {columns === undefined ? null : (
            <div className="jp-slurm-GridHead" role="row" aria-rowindex={1}>
              {columns.head}
            </div>
          )}
          <div className="jp-slurm-GridClip">
            <div
              className="jp-slurm-GridBody"
              role="rowgroup"
              style={{ transform: `translateY(${-top}px)` }}
            >
              {[...inSight, ...away.map(row => [row, at] as const)].map(([row, number]) => (
                <div
                  key={row.key}
                  role="row"
                  aria-rowindex={number + 1 + headRows}
                  aria-label={props.sentence?.(row)}
                  {...branchOf(props.branch?.(row))}
                  aria-selected={choice.keys.has(row.key)}
                  className="jp-slurm-GridRow"
                  data-at={number}
                  tabIndex={number === at ? 0 : -1}
                  style={{ top: number * ROW_PX }}
                  onFocus={() => setActive({ key: row.key, at: number })}
                  onClick={event => {
                    const add = event.ctrlKey || event.metaKey;
                    go(number, event.shiftKey ? 'range' : add ? 'add' : 'only');
                  }}
                  onDoubleClick={() => {
                    props.onOpen?.(row);
                  }}
                  onContextMenu={event => {
                    if (!choice.keys.has(row.key)) {
                      go(number, 'only');
                    }
                    props.onMenu?.(row, event);
                  }}
                >
                  {props.cells(row)}
                </div>
              ))}
            </div>
          </div>
        </div>
      </div>
    </div>
  );
}

function branchOf(branch: Branch | undefined): JSX.IntrinsicElements['div'] {
  return branch === undefined
    ? {}
    : { 'aria-level': branch.level, 'aria-expanded': branch.open ?? undefined };
}

/** Return the row that a key selects; null if the key does not move. */
function goalOf(key: string, at: number, count: number, page: number): number | null {
  switch (key) {
    case 'ArrowDown':
      return at + 1;
    case 'ArrowUp':
      return at - 1;
    case 'PageDown':
      return at + page;
    case 'PageUp':
      return at - page;
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
    default:
      return null;
  }
}

interface Scrolled {
  top: number;
  height: number;
  onScroll: () => void;
}

/** Return the index of the row with a key, or -1. The map is built on first use. */
function useFind(
  rows: readonly { key: string }[],
  keyNow: (key: string) => string = key => key
): (key: string) => number {
  const index = useMemo(() => ({ rows, at: null as Map<string, number> | null }), [rows]);
  return useCallback(
    (key: string) => {
      index.at ??= new Map(index.rows.map((row, at) => [row.key, at]));
      return index.at.get(keyNow(key)) ?? -1;
    },
    [index, keyNow]
  );
}

/** The scroll position and the height. The top row stays in place when rows are added. */
function useScroll(
  box: RefObject<HTMLDivElement>,
  rows: readonly { key: string }[],
  find: (key: string) => number,
  listing: string
): Scrolled {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  // The row at the top of the box; '' at the top of the rows.
  const topKey = useRef({ listing, key: '' });
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) {
      return undefined;
    }
    const watch = new ResizeObserver(() => setHeight(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, [box]);
  useLayoutEffect(() => {
    const element = box.current;
    const before = topKey.current;
    // At the top, do not read the position, since that would lay out the page.
    if (element === null || before.key === '') {
      return;
    }
    const goal = before.listing === listing ? find(before.key) : 0;
    const was = Math.floor(element.scrollTop / ROW_PX);
    if (goal >= 0 && goal !== was) {
      element.scrollTop = goal * ROW_PX + (goal === 0 ? 0 : element.scrollTop % ROW_PX);
      setTop(element.scrollTop);
    }
    topKey.current = { listing, key: element.scrollTop === 0 ? '' : before.key };
    // Scrolling saves the row at the top. It is found again when the rows change.
  }, [box, find, listing]);
  const onScroll = (): void => {
    const now = box.current?.scrollTop ?? 0;
    const at = Math.min(rows.length - 1, Math.floor(now / ROW_PX));
    topKey.current = { listing, key: now === 0 ? '' : (rows[at]?.key ?? '') };
    setTop(now);
  };
  return { top: Math.min(top, rows.length * ROW_PX), height, onScroll };
}
