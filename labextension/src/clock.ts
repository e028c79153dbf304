// Hooks for the current time, for views with durations.
import { useEffect, useReducer } from 'react';
import { useSeen } from './watching';

/** Intervals of the clock. Durations show seconds only in the first hour. */
const QUICK_MS = 1_000;
const SLOW_MS = 20_000;
const HOUR_S = 3_600;

/**
 * Return the last tick in UTC epoch seconds; null if the clock does not tick. The clock stops while
 * the view is hidden.
 */
export function useNow(everyMs: number | null = QUICK_MS): number {
  const seen = useSeen();
  const [nowS, tick] = useReducer(timeS, null, timeS);
  useEffect(() => {
    if (everyMs === null || !seen) {
      return undefined;
    }
    const clock = window.setInterval(() => {
      if (!document.hidden) {
        tick();
      }
    }, everyMs);
    return () => window.clearInterval(clock);
  }, [everyMs, seen]);
  return nowS;
}

/**
 * Return the time of this render, and render again. `sinceS` is the start of the duration; null if
 * the duration has ended.
 */
export function useClock(sinceS: number | null): number {
  const nowS = timeS();
  useNow(sinceS === null ? null : nowS - sinceS < HOUR_S ? QUICK_MS : SLOW_MS);
  return nowS;
}

function timeS(): number {
  return Date.now() / 1000;
}
