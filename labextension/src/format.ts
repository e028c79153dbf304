// Durations, times, sizes and states as text. Pure: no clock, no model.
import { decimal, language, unitsOfTime } from './language';
import { STATES } from './states';
import { trans } from './translation';
import type { Connection, Row } from './wire';

/** At most two units: `7 s`, `2 min 5 s`, `1 h 1 min`, `2 d 7 h`. */
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

/** A time this near needs no date. */
const SOON_S = 12 * 3600;

/** Local time of a UTC epoch second, in 24 hours; with the date unless it is today or soon. */
export function moment(atS: number, nowS: number): string {
  return localTime(atS, nowS, CLOCK);
}

/** The same to the second. */
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

/** In the largest suitable unit: `512 MiB`, `1.5 GiB`. */
export function memory(mib: number): string {
  return mib < 1024 ? `${decimal(mib, 0)} MiB` : `${decimal(mib / 1024)} GiB`;
}

/** One line without control characters and without marks that reverse the text after it. */
export function visible(text: string): string {
  return text.replace(/\s/gu, ' ').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd');
}

type Known = (typeof STATES)[keyof typeof STATES];

export type Tone = Known['tone'];

/** undefined: a state of a newer Slurm. */
function known(state: string): Known | undefined {
  return Object.hasOwn(STATES, state) ? STATES[state as keyof typeof STATES] : undefined;
}

/** The session of a cell; null: no session, or not a cell. */
export function sessionOf(job: Row): string | null {
  return job.kind === 'cell' ? job.session : null;
}

/** Whether the state is final. */
export function isFinal(state: string): boolean {
  return known(state)?.final ?? false;
}

export function isRunning(state: string): boolean {
  return tone(state) === 'running';
}

/** Whether the job has yet to run. */
export function isWaiting(state: string): boolean {
  return !isFinal(state) && !isRunning(state);
}

/** Whether the job is held: Slurm's state is PENDING then, with a reason. */
export function isHeld(state: string, reason: string | null | undefined): boolean {
  return state === 'PENDING' && (reason ?? '').includes('Held');
}

/** Whether Slurm can be queried. */
export function isOpen({ state }: Connection): boolean {
  return state === 'open' || state === 'local';
}

/** The colour of a state; a word always stands beside it. */
export function tone(state: string): Tone {
  return known(state)?.tone ?? 'waiting';
}

/** Returns the state in the page's language; Slurm's own word where the state is unknown. */
export function stateWord(state: string): string {
  const word = known(state)?.word;
  return word === undefined ? state.toLowerCase().replace(/_/g, ' ') : trans.gettext(word);
}
