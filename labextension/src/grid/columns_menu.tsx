// A button with a list that selects and orders the columns.
import { useEffect, useRef, useState, type JSX } from 'react';
import { trans } from '../translation';
import { moved, type Arrangement, type Column } from './columns';

interface Props<T> {
  all: readonly Column<T>[];
  arrangement: Arrangement;
  arrange: (next: Arrangement) => void;
  /** The default arrangement. */
  usual: Arrangement;
}

export function ColumnsMenu<T>(props: Props<T>): JSX.Element {
  const { all, arrangement, arrange } = props;
  const [open, setOpen] = useState(false);
  const whole = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) {
      return undefined;
    }
    const leave = (event: Event): void => {
      const target = event.target;
      if (target instanceof Node && !whole.current?.contains(target)) {
        setOpen(false);
      }
    };
    document.addEventListener('pointerdown', leave);
    document.addEventListener('focusin', leave);
    return () => {
      document.removeEventListener('pointerdown', leave);
      document.removeEventListener('focusin', leave);
    };
  }, [open]);
  const ids = arrangement.columns;
  const shown = ids.flatMap(id => all.find(column => column.id === id) ?? []);
  const listed = [...shown, ...all.filter(column => !ids.includes(column.id))];
  const choose = (columns: string[]): void => arrange({ ...arrangement, columns });
  return (
    <div
      className="jp-slurm-Columns"
      ref={whole}
      onKeyDown={event => {
        if (event.key === 'Escape' && open) {
          event.stopPropagation();
          setOpen(false);
          whole.current?.querySelector('button')?.focus();
        }
      }}
    >
      <button className="jp-slurm-Button" aria-expanded={open} onClick={() => setOpen(!open)}>
        {trans.__('Columns')} <span aria-hidden="true">▾</span>
      </button>
      {open ? (
        <div role="group" aria-label={trans.__('Columns')} className="jp-slurm-ColumnsList">
          {listed.map(({ id, title }) => (
            <div key={id}>
              <label>
                <input
                  type="checkbox"
                  checked={ids.includes(id)}
                  disabled={ids.length === 1 && ids.includes(id)}
                  onChange={event => {
                    const rest = ids.filter(one => one !== id);
                    choose(event.currentTarget.checked ? [...rest, id] : rest);
                  }}
                />{' '}
                {title}
              </label>
              {ids.includes(id) ? (
                <>
                  {(
                    [
                      ['↑', -1, trans.__('Move %1 left', title)],
                      ['↓', 1, trans.__('Move %1 right', title)]
                    ] as const
                  ).map(([sign, places, label]) => (
                    <button
                      key={sign}
                      className="jp-slurm-IconButton"
                      title={label}
                      aria-label={label}
                      onClick={() => choose(moved(ids, id, places))}
                    >
                      <span aria-hidden="true">{sign}</span>
                    </button>
                  ))}
                </>
              ) : null}
            </div>
          ))}
          <button
            className="jp-slurm-Button"
            onClick={() => arrange({ ...props.usual, sorting: arrangement.sorting })}
          >
            {trans.__('Reset')}
          </button>
        </div>
      ) : null}
    </div>
  );
}
