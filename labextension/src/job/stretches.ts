// What a job has done with its time: stretches of one state, and how long each state was in all.
// Pure: events and what time it is -> numbers.
import { isFinal } from '../format';
import type { JobEvent } from '../wire';

export interface Stretch {
  event: JobEvent;
  /** Until the next event, or now; 0 of an end. */
  lastsS: number;
}

/** The oldest first, one for each event. */
export function stretchesOf(events: readonly JobEvent[], nowS: number): Stretch[] {
  return events.map((event, at) => {
    const over = isFinal(event.state) ? event.time_s : nowS;
    return { event, lastsS: Math.max(0, (events[at + 1]?.time_s ?? over) - event.time_s) };
  });
}

/** What passes faster than this is not worth a word. */
export const BRIEF_S = 1;

/** How long it was in each state, in the order in which it came into them. */
export function sumsOf(stretches: readonly Stretch[]): [state: string, seconds: number][] {
  const sums = new Map<string, number>();
  for (const { event, lastsS } of stretches) {
    sums.set(event.state, (sums.get(event.state) ?? 0) + lastsS);
  }
  return [...sums].filter(([state, seconds]) => !isFinal(state) && seconds >= BRIEF_S);
}
