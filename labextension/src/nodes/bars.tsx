// So many of so many, as numbers and as a small bar.
import type { JSX } from 'react';

interface Props {
  /** null: that is not told. */
  free: number | null;
  all: number;
  label?: string;
}

export function Share({ free, all, label }: Props): JSX.Element {
  const part = all === 0 || free === null ? 0 : free / all;
  return (
    <span className="jp-slurm-Share">
      <span className="jp-slurm-Bar" aria-hidden="true">
        <span style={{ width: `${100 * part}%` }} />
      </span>
      <span className="jp-slurm-Number">
        {free ?? '?'} / {all}
      </span>
      {label === undefined ? null : <span className="jp-slurm-Quiet"> {label}</span>}
    </span>
  );
}
