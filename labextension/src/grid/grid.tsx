// A grid of very many rows of one height, of which only those in sight exist. The box scrolls over
// nothing but height; what is seen stays put in it and shows what belongs there, so that nothing is
// ever blank. A tree is a grid whose rows have levels. Knows rows by number and key alone; keys move
// and select.
import {
  useLayoutEffect,
  useRef,
  useState,
  type JSX,
  type KeyboardEvent,
  type MouseEvent,
  type RefObject
} from 'react';
import { useKeptFocus } from './focus';
import '../../style/grid.css';

export const ROW_PX = 24;
const SPARE = 4;

export type Choosing = 'only' | 'add' | 'range';

/** What a row of a tree is: how deep, and whether it is open; null: it does not open. */
export interface Branch {
  level: number;
  open: boolean | null;
}

interface Props {
  label: string;
  count: number;
  columns: number;
  /** Of all columns, in pixels; null: as wide as the box. */
  width: number | null;
  head: JSX.Element | null;
  keyOf: (at: number) => string;
  /** Where the row of that key is now; -1: nowhere. */
  find: (key: string) => number;
  cells: (at: number) => JSX.Element;
  /** Of a tree, what is told of a row. */
  branch?: (at: number) => Branch;
  /** What a screen reader says of a row; none: its cells. */
  sentence?: (at: number) => string;
  selected: (at: number) => boolean;
  onSelect: (at: number, how: Choosing) => void;
  onSelectAll?: () => void;
  onOpen: (at: number) => void;
  onDelete?: (at: number) => void;
  onExpand?: (at: number, open: boolean) => void;
  onMenu?: (at: number, event: MouseEvent) => void;
  /** Another listing altogether: it begins at its top. */
  listing: string;
}

interface Active {
  key: string;
  at: number;
}

export function Grid(props: Props): JSX.Element {
  const { count, find, keyOf } = props;
  const box = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<Active>({ key: '', at: 0 });
  const { top, height, onScroll } = useScroll(box, props);
  const known = find(active.key);
  const at = Math.min(known < 0 ? active.at : known, count - 1);
  const headPx = props.head === null ? 0 : ROW_PX;
  const seen = Math.max(0, height - headPx);
  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE);
  const last = Math.min(count, Math.ceil((top + seen) / ROW_PX) + SPARE);
  const focus = useRef(false);

  const go = (goal: number, how: Choosing): void => {
    const next = Math.min(count - 1, Math.max(0, goal));
    if (next < 0) {
      return;
    }
    setActive({ key: keyOf(next), at: next });
    props.onSelect(next, how);
    focus.current = true;
    const element = box.current;
    if (element !== null) {
      const least = (next + 1) * ROW_PX - seen;
      element.scrollTop = Math.max(least, Math.min(element.scrollTop, next * ROW_PX));
    }
  };
  useLayoutEffect(() => {
    if (focus.current) {
      focus.current = false;
      box.current?.querySelector<HTMLElement>(`[data-at="${at}"]`)?.focus({ preventScroll: true });
    }
  });
  useKeptFocus(
    box,
    () => box.current?.querySelector<HTMLElement>(`[data-at="${at}"]`) ?? box.current
  );
  const keys = (event: KeyboardEvent): void => {
    if (event.target instanceof Element && event.target.closest('[role="columnheader"]')) {
      return;
    }
    const goal = goalOf(event.key, at, count, Math.max(1, Math.floor(seen / ROW_PX) - 1));
    if (goal !== null) {
      go(goal, event.shiftKey ? 'range' : 'only');
    } else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
      props.onExpand?.(at, event.key === 'ArrowRight');
    } else if (event.key === 'Enter') {
      props.onOpen(at);
    } else if (event.key === ' ') {
      props.onSelect(at, 'add');
    } else if (event.key === 'Delete') {
      props.onDelete?.(at);
    } else if (event.key === 'a' && (event.ctrlKey || event.metaKey)) {
      props.onSelectAll?.();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  // The active row is there even when it is out of sight, so that the focus is not lost.
  const numbers = Array.from({ length: Math.max(0, last - first) }, (_, more) => first + more);
  const isAway = at >= 0 && (at < first || at >= last);
  const whole = headPx + count * ROW_PX;
  const headRows = props.head === null ? 0 : 1;
  return (
    <div
      className="jp-slurm-Grid"
      role={props.branch === undefined ? 'grid' : 'treegrid'}
      aria-label={props.label}
      aria-rowcount={count + headRows}
      aria-colcount={props.columns}
      aria-multiselectable="true"
      tabIndex={-1}
      ref={box}
      onKeyDown={keys}
      onScroll={onScroll}
    >
      <div className="jp-slurm-GridHeight" style={{ height: whole, minWidth: props.width ?? 0 }}>
        <div className="jp-slurm-GridSeen" style={{ height: Math.min(whole, height) }}>
          {props.head === null ? null : (
            <div className="jp-slurm-GridHead" role="row" aria-rowindex={1}>
              {props.head}
            </div>
          )}
          <div className="jp-slurm-GridClip">
            <div
              className="jp-slurm-GridBody"
              role="rowgroup"
              style={{ transform: `translateY(${-top}px)` }}
            >
              {(isAway ? [...numbers, at] : numbers).map(number => (
                <div
                  key={keyOf(number)}
                  role="row"
                  aria-rowindex={number + 1 + headRows}
                  aria-label={props.sentence?.(number)}
                  {...branchOf(props.branch?.(number))}
                  aria-selected={props.selected(number)}
                  className="jp-slurm-GridRow"
                  data-at={number}
                  data-odd={number % 2 === 1}
                  tabIndex={number === at ? 0 : -1}
                  style={{ top: number * ROW_PX }}
                  onFocus={() => {
                    setActive({ key: keyOf(number), at: number });
                  }}
                  onClick={event => {
                    const add = event.ctrlKey || event.metaKey;
                    go(number, event.shiftKey ? 'range' : add ? 'add' : 'only');
                  }}
                  onDoubleClick={() => {
                    props.onOpen(number);
                  }}
                  onContextMenu={event => {
                    if (!props.selected(number)) {
                      go(number, 'only');
                    }
                    props.onMenu?.(number, event);
                  }}
                >
                  {props.cells(number)}
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

/** Where a key leads; null: it is none that leads anywhere. */
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

/** How far it is scrolled, and how high it is. The row at the top stays there as others come. */
function useScroll(
  box: RefObject<HTMLDivElement>,
  { count, find, keyOf, listing }: Props
): Scrolled {
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const topKey = useRef({ listing, key: '' });
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) {
      return undefined;
    }
    const watch = new ResizeObserver(() => {
      setHeight(element.clientHeight);
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
    };
  }, [box]);
  useLayoutEffect(() => {
    const element = box.current;
    const before = topKey.current;
    if (element === null || element.scrollTop === 0) {
      return;
    }
    const goal = before.listing === listing ? find(before.key) : 0;
    const was = Math.floor(element.scrollTop / ROW_PX);
    if (goal >= 0 && goal !== was) {
      element.scrollTop = goal * ROW_PX + (goal === 0 ? 0 : element.scrollTop % ROW_PX);
      setTop(element.scrollTop);
    }
    topKey.current = { ...before, listing };
    // What is at the top is remembered as it is scrolled, and looked for when rows have changed.
  }, [box, find, listing]);
  const onScroll = (): void => {
    const now = box.current?.scrollTop ?? 0;
    const at = Math.min(count - 1, Math.floor(now / ROW_PX));
    topKey.current = { listing, key: at < 0 ? '' : keyOf(at) };
    setTop(now);
  };
  return { top: Math.min(top, Math.max(0, count * ROW_PX)), height, onScroll };
}
