// Texts of problems. No I/O.
import { together } from './language';
import type { Problem } from './wire';

/** Create a problem that the browser found, not the agent. */
export function problem(code: string, message: string, more: Partial<Problem> = {}): Problem {
  return { code, message, hint: null, detail: null, option: null, transient: false, ...more };
}

/** The message and the hint. */
export function told({ message, hint }: Problem): string {
  return together([message, hint]);
}

/** The text beside a login button. It has no hint, because hints name other ways to log in. */
export function toldBeside(one: Problem): string {
  return told(needsLogin(one) ? { ...one, hint: null } : one);
}

/** Return whether two problems have equal content. */
export function isSame(
  one: Problem | null | undefined,
  other: Problem | null | undefined
): boolean {
  return one?.message === other?.message;
}

export function needsLogin({ code }: Problem): boolean {
  return code === 'login-needed';
}
