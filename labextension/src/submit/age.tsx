// The age of a live figure once it is more than half a minute old.
import type { JSX } from 'react';
import { useClock } from '../clock';
import { duration } from '../format';
import { trans } from '../translation';

const FRESH_S = 30;

interface Props {
  /** UTC epoch seconds; null if unknown. */
  asOf: number | null;
}

export function Age({ asOf }: Props): JSX.Element | null {
  const ageS = useClock(asOf) - (asOf ?? Infinity);
  if (ageS <= FRESH_S) {
    return null;
  }
  const shownS = ageS < 60 ? ageS : ageS - (ageS % 60);
  return <span className="jp-slurm-Quiet"> · {trans.__('%1 ago', duration(shownS))}</span>;
}
