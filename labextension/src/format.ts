// Durations, times, sizes and states as text. No clock, no model, no I/O.
import { decimal, language, unitsOfTime } from './language';
import { STATES } from './states';
import { trans } from './translation';
import type { Connection, Row } from './wire';

/** Format a duration with at most two units: `7 s`, `2 min 5 s`, `1 h 1 min`, `2 d 7 h`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [d, h, min, s] = unitsOfTime();
  const units: [number, string, number, string][] = [
    [86_400, d, 3_600, h],
    [3_600, h, 60, min],
    [60, min, 1, s]
  ];
  for (const [size, unit, nextSize, nextUnit] of units) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / nextSize);
      return `${Math.floor(whole / size)} ${unit}${rest > 0 ? ` ${rest} ${nextUnit}` : ''}`;
    }
  }
  return `${whole} ${s}`;
}

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;

/** Seconds from now within which a time is shown without its date. */
const SOON_S = 12 * 3600;

/**
 * Format a UTC epoch second as local time with 24 hours. Add the date unless it is today or soon.
 */
export function moment(atS: number, nowS: number): string {
  return localTime(atS, nowS, CLOCK);
}

/** Format the same time to the second. */
export function momentWithSeconds(atS: number, nowS: number): string {
  return localTime(atS, nowS, { ...CLOCK, second: '2-digit' });
}

function localTime(atS: number, nowS: number, clock: Intl.DateTimeFormatOptions): string {
  const at = new Date(atS * 1000);
  const isToday = at.toDateString() === new Date(nowS * 1000).toDateString();
  return isToday || (atS > nowS && atS - nowS < SOON_S)
    ? at.toLocaleTimeString(language(), clock)
    : at.toLocaleString(language(), { month: 'short', day: 'numeric', ...clock });
}

/** Format a size in the largest suitable unit: `512 MiB`, `1.5 GiB`. */
export function memory(mib: number): string {
  return mib < 1024 ? `${decimal(mib, 0)} MiB` : `${decimal(mib / 1024)} GiB`;
}

/**
 * Return one line without control characters, and without marks that reverse the text after them.
 */
export function visible(text: string): string {
  return text.replace(/\s/gu, ' ').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd');
}

type Known = (typeof STATES)[keyof typeof STATES];

export type Tone = Known['tone'];

/** The words for a state; undefined for a state of a newer Slurm. */
function known(state: string): Known | undefined {
  return Object.hasOwn(STATES, state) ? STATES[state as keyof typeof STATES] : undefined;
}

/** Return the session of a cell; null if the job is not a cell, or has no session. */
export function sessionOf(job: Row): string | null {
  return job.kind === 'cell' ? job.session : null;
}

/** Return whether the state is final. */
export function isFinal(state: string): boolean {
  return known(state)?.final ?? false;
}

export function isRunning(state: string): boolean {
  return tone(state) === 'running';
}

/** Return whether the job has not started yet. */
export function isWaiting(state: string): boolean {
  return !isFinal(state) && !isRunning(state);
}

/** Return whether the job is held. Slurm's state is then PENDING, with a reason. */
export function isHeld(state: string, reason: string | null | undefined): boolean {
  return state === 'PENDING' && (reason ?? '').includes('Held');
}

/** Return whether Slurm can be queried. */
export function isOpen({ state }: Connection): boolean {
  return state === 'open' || state === 'local';
}

/** Return the colour of a state. A word always stands beside it. */
export function tone(state: string): Tone {
  return known(state)?.tone ?? 'waiting';
}

/** Return the state in the page's language, or Slurm's own word if the state is unknown. */
export function stateWord(state: string): string {
  const word = known(state)?.word;
  return word === undefined ? state.toLowerCase().replace(/_/g, ' ') : trans.gettext(word);
}
