// A group of jobs that opens and closes; a row of it is row.tsx's.
import { useState, type JSX, type ReactNode } from 'react';
import { Row, type RowsProps } from './row';
import type { JobRow } from './rows';

/** More are shown when one asks for them: nobody reads a thousand rows in a sidebar. */
const FIRST = 50;
const MORE = 200;

interface GroupProps extends RowsProps {
  title: string;
  rows: JobRow[];
  open: boolean;
  toggle: () => void;
  /** Below the rows. */
  children?: ReactNode;
}

export function JobGroup(props: GroupProps): JSX.Element {
  const { title, rows, open, toggle, children, ...shared } = props;
  const [most, setMost] = useState(FIRST);
  const { trans } = shared;
  return (
    <section className="jp-slurm-Group">
      <h3>
        <button className="jp-slurm-GroupHead" aria-expanded={open} onClick={toggle}>
          <span aria-hidden="true">{open ? '▾' : '▸'}</span> {title}{' '}
          {rows.length > 0 ? <span className="jp-slurm-Count">{rows.length}</span> : null}
        </button>
      </h3>
      {open && rows.length > 0 ? (
        <ul className="jp-slurm-Rows" aria-label={title}>
          {rows.slice(0, most).map(row => (
            <Row key={row.key} row={row} {...shared} />
          ))}
        </ul>
      ) : null}
      {open && rows.length > most ? (
        <button
          className="jp-slurm-Button jp-slurm-More"
          onClick={() => {
            setMost(most + MORE);
          }}
        >
          {trans.__('Show more (%1 left)', rows.length - most)}
        </button>
      ) : null}
      {open ? children : null}
    </section>
  );
}
