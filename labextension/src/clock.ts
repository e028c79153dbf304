// What time it is, for what tells how long something goes on. A hook alone.
import { useEffect, useReducer } from 'react';
import { useSeen } from './watching';

/** Seconds are shown in the first hour alone. */
const QUICK_MS = 1_000;
const SLOW_MS = 20_000;
const HOUR_S = 3_600;

/**
 * Returns the last tick in UTC epoch seconds. The clock stands while nobody sees the view. `sinceS`:
 * the beginning; null: it is over.
 */
export function useClock(sinceS: number | null): number {
  const seen = useSeen();
  const [, tick] = useReducer((count: number) => count + 1, 0);
  const nowS = Date.now() / 1000;
  const every = sinceS === null ? null : nowS - sinceS < HOUR_S ? QUICK_MS : SLOW_MS;
  useEffect(() => {
    if (every === null || !seen) {
      return undefined;
    }
    const clock = window.setInterval(() => {
      if (!document.hidden) {
        tick();
      }
    }, every);
    return () => {
      window.clearInterval(clock);
    };
  }, [every, seen]);
  return nowS;
}
