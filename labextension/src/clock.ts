// What time it is, for what tells how long something goes on. A hook alone.
import { useEffect, useReducer } from 'react';

/** Seconds are shown in the first hour alone. */
const QUICK_MS = 1_000;
const SLOW_MS = 20_000;
const HOUR_S = 3_600;

/** UTC epoch seconds, of the last tick. `sinceS`: when it began; null: it is over. */
export function useClock(sinceS: number | null): number {
  const [, tick] = useReducer((count: number) => count + 1, 0);
  const nowS = Date.now() / 1000;
  const every = sinceS === null ? null : nowS - sinceS < HOUR_S ? QUICK_MS : SLOW_MS;
  useEffect(() => {
    if (every === null) {
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
  }, [every]);
  return nowS;
}
