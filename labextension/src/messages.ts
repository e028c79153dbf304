// The agent's messages as text: why a job waits, what can be done, how it ended. Pure.
import { together } from './language';
import type { Message, Problem } from './wire';

/** A text that varies in nothing, or a message. */
export type Text = string | Message;

/** The prefix of a command in a terminal. */
const COMMAND = 'jupyter slurm';

/** Returns the text with its arguments filled in. */
export function said(text: Text): string {
  if (typeof text === 'string') {
    return text;
  }
  const words: Message['args'] = { slurm: COMMAND, ...text.args };
  return text.text.replace(/\{(\w+)\}/g, (place, name: string) => said(words[name] ?? place));
}

/** Returns the text without its arguments. */
export function codeOf(text: Text): string {
  return typeof text === 'string' ? text : text.text;
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
