// The heads of a grid's columns. A click sorts. Pointer and keys resize and move columns.
import {
  useRef,
  useState,
  type CSSProperties,
  type JSX,
  type KeyboardEvent,
  type PointerEvent
} from 'react';
import { trans } from '../translation';
import { moved, NARROWEST_PX, sortedBy, type Arrangement, type Shown } from './columns';

const STEP_PX = 16;

interface Props<T> {
  shown: readonly Shown<T>[];
  arrangement: Arrangement;
  arrange: (next: Arrangement) => void;
}

export function Heads<T>({ shown, arrangement, arrange }: Props<T>): JSX.Element {
  const [active, setActive] = useState(0);
  const row = useRef<HTMLDivElement>(null);
  const at = Math.min(active, shown.length - 1);
  const resize = (id: string, width: number | null): void => {
    const widths = new Map(Object.entries(arrangement.widths));
    if (width === null) {
      widths.delete(id);
    } else {
      widths.set(id, Math.max(NARROWEST_PX, Math.round(width)));
    }
    arrange({ ...arrangement, widths: Object.fromEntries(widths) });
  };
  const move = (id: string, places: number): void => {
    const columns = shown.map(({ column }) => column.id);
    arrange({ ...arrangement, columns: moved(columns, id, places) });
  };
  const go = (next: number): void => {
    const to = Math.min(shown.length - 1, Math.max(0, next));
    setActive(to);
    row.current?.querySelectorAll('button')[to]?.focus();
  };
  const keys = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    const here = shown[at];
    if (step === 0 || here === undefined) {
      return;
    }
    event.preventDefault();
    if (event.altKey) {
      move(here.column.id, step);
      setActive(Math.min(shown.length - 1, Math.max(0, at + step)));
    } else if (event.shiftKey) {
      resize(here.column.id, widthNow(row.current?.children[at]) + step * STEP_PX);
    } else {
      go(at + step);
    }
  };
  return (
    <div className="jp-slurm-Heads" ref={row} onKeyDown={keys}>
      {shown.map(({ column, width, grows }, number) => (
        <Head
          key={column.id}
          {...{ column, layout: { flexBasis: width, flexGrow: Number(grows) } }}
          focusable={number === at}
          order={
            arrangement.sorting.column !== column.id
              ? 'none'
              : arrangement.sorting.down
                ? 'descending'
                : 'ascending'
          }
          onFocus={() => setActive(number)}
          onSort={() =>
            arrange({ ...arrangement, sorting: sortedBy(arrangement.sorting, column.id) })
          }
          onResize={next => resize(column.id, next)}
          onDrop={id => move(id, number - shown.findIndex(one => one.column.id === id))}
        />
      ))}
    </div>
  );
}

interface HeadProps {
  column: Pick<Shown<never>['column'], 'id' | 'title' | 'number'>;
  layout: CSSProperties;
  focusable: boolean;
  order: 'none' | 'ascending' | 'descending';
  onFocus: () => void;
  onSort: () => void;
  /** The width; null for the initial width. */
  onResize: (width: number | null) => void;
  onDrop: (id: string) => void;
}

const DRAGGED = 'application/x-jupyter-slurm-column';

function Head(props: HeadProps): JSX.Element {
  const { layout, order } = props;
  const { id, title, number } = props.column;
  return (
    <div
      role="columnheader"
      aria-sort={order}
      className="jp-slurm-HeadCell"
      data-number={number}
      style={layout}
      onDragOver={event => {
        if (event.dataTransfer.types.includes(DRAGGED)) {
          event.preventDefault();
        }
      }}
      onDrop={event => {
        event.preventDefault();
        props.onDrop(event.dataTransfer.getData(DRAGGED));
      }}
    >
      <button
        draggable
        tabIndex={props.focusable ? 0 : -1}
        title={trans.__(
          '%1: sort. Shift with ← or → changes the width, and Alt with ← or → moves the column.',
          title
        )}
        onFocus={props.onFocus}
        onClick={props.onSort}
        onDragStart={event => event.dataTransfer.setData(DRAGGED, id)}
      >
        {title}
        <span className="jp-slurm-Order" aria-hidden="true">
          {order === 'none' ? '' : order === 'descending' ? '▾' : '▴'}
        </span>
      </button>
      <Handle onResize={props.onResize} />
    </div>
  );
}

/** The handle that resizes a column with the pointer. In the head, keys resize the column. */
function Handle({ onResize }: Pick<HeadProps, 'onResize'>): JSX.Element {
  const from = useRef<{ x: number; width: number } | null>(null);
  const drag = (event: PointerEvent): void => {
    if (from.current !== null) {
      onResize(from.current.width + event.clientX - from.current.x);
    }
  };
  return (
    <span
      className="jp-slurm-Handle"
      aria-hidden="true"
      onPointerDown={event => {
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = { x: event.clientX, width: widthNow(event.currentTarget.parentElement) };
      }}
      onPointerMove={drag}
      onPointerUp={() => {
        from.current = null;
      }}
      onDoubleClick={() => onResize(null)}
    />
  );
}

/** Return the shown width in pixels, since a column may have grown. */
function widthNow(head: Element | null | undefined): number {
  return head?.getBoundingClientRect().width ?? 0;
}
