// The age of the shown data, or the reason why it is old.
import { useRef, type JSX } from 'react';
import { exactly } from '../exactly';
import { momentWithSeconds } from '../format';
import { told } from '../messages';
import type { Freshness } from '../tokens';
import { trans } from '../translation';

const LEAST_OLD_S = 30;
/** Seconds for news to pass through agent and server, which use long polls. */
const WAY_S = 20;

/** Return whether news is overdue. */
export function isOld({ asOf, problem, intervalS }: Freshness, nowS: number): boolean {
  if (asOf === null || problem !== null) {
    return asOf !== null;
  }
  return intervalS !== undefined && nowS - asOf > Math.max(LEAST_OLD_S, 2 * intervalS + WAY_S);
}

/**
 * Return the end time for durations. For an old state it is the time of its news, so that clocks
 * stop.
 */
export function knownS(freshness: Freshness | null | undefined, nowS: number): number {
  return freshness != null && isOld(freshness, nowS) ? (freshness.asOf ?? nowS) : nowS;
}

/** Return `nowS`, or its last value before `stopped`. */
export function useStopped(stopped: boolean, nowS: number): number {
  const last = useRef(nowS);
  if (!stopped) {
    last.current = nowS;
  }
  return last.current;
}

/** Return the reason why the state is old; '' if it is current or unknown. */
export function ageWords(freshness: Freshness, why: string, when: string, nowS: number): string {
  if (!isOld(freshness, nowS)) {
    return '';
  }
  return why === ''
    ? trans.__('Slurm has not answered since %1. Showing the last known state.', when)
    : trans.__('%1 Showing the last known state, from %2.', why, when);
}

interface Props {
  freshness: Freshness | undefined;
}

export function FreshnessLine({ freshness = NONE }: Props): JSX.Element {
  const { asOf, problem } = freshness;
  const nowS = Date.now() / 1000;
  const when = asOf === null ? '' : momentWithSeconds(asOf, nowS);
  const why = problem === null ? '' : told(problem);
  const age = ageWords(freshness, why, when, nowS) || why;
  return age === '' ? (
    <span className="jp-slurm-Quiet jp-slurm-Fresh" title={asOf === null ? '' : exactly(asOf)}>
      {when === '' ? trans.__('Loading…') : trans.__('as of %1', when)}
    </span>
  ) : (
    <span className="jp-slurm-Problem" role="status" title={problem?.detail ?? undefined}>
      {age}
    </span>
  );
}

const NONE: Freshness = { asOf: null, problem: null };
