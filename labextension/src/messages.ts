// What the agent says, in the user's language: why a job waits, what can be done, how it ended.
// Pure. Its English text is a message's code in the catalogues.
import { together } from './language';
import { trans } from './translation';
import type { Message, Problem } from './wire';

/** A text that varies in nothing, or a message. */
export type Text = string | Message;

/** What stands before the words of a command: here people type them in a terminal. */
const COMMAND = 'jupyter slurm';
const FORMAT = /%[%\d]/;

export function said(text: Text): string {
  const words = filled(text, one => (mayBeCode(one) ? trans.gettext(one) : one));
  return typeof text === 'string' ? words : together([words]);
}

/** Under which the catalogues have it. */
export function codeOf(text: Text): string {
  return typeof text === 'string' ? text : text.text;
}

export function english(text: Text): string {
  return filled(text, one => one);
}

/** Others' words may be what gettext takes amiss: its header, placeholders, what every object has. */
function mayBeCode(text: string): boolean {
  return text !== '' && !FORMAT.test(text) && !(text in Object.prototype);
}

function filled(text: Text, inLanguage: (english: string) => string): string {
  if (typeof text === 'string') {
    return inLanguage(text);
  }
  const words: Message['args'] = { slurm: COMMAND, ...text.args };
  return inLanguage(text.text).replace(/\{(\w+)\}/g, (place, name: string) => {
    const value = words[name] ?? place;
    return typeof value === 'string' ? value : filled(value, inLanguage);
  });
}

/** Makes the problem that is found here, not by the agent. */
export function problem(code: string, message: Text, more: Partial<Problem> = {}): Problem {
  return { code, message, hint: null, detail: null, option: null, transient: false, ...more };
}

/** What is wrong, and what can be done. */
export function told({ message, hint }: Problem): string {
  return together([message, hint ?? ''].map(said));
}

/** The same beside a button that logs in where that is what is needed: the hint names other ways. */
export function toldBeside(one: Problem): string {
  return told(needsLogin(one) ? { ...one, hint: null } : one);
}

/** Whether both say the same, of two that came apart from each other. */
export function isSame(
  one: Problem | null | undefined,
  other: Problem | null | undefined
): boolean {
  return JSON.stringify(one?.message) === JSON.stringify(other?.message);
}

/** Of what another page has sent. */
export function isText(value: unknown): value is Text {
  return typeof value === 'string' || typeof (Object(value) as Partial<Message>).text === 'string';
}

export function needsLogin({ code }: Problem): boolean {
  return code === 'login-needed';
}
