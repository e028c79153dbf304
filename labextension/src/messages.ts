// Problems in words. Pure.
import { together } from './language';
import type { Problem } from './wire';

/** Makes the problem that is found here, not by the agent. */
export function problem(code: string, message: string, more: Partial<Problem> = {}): Problem {
  return { code, message, hint: null, detail: null, option: null, transient: false, ...more };
}

/** What is wrong, and what can be done. */
export function told({ message, hint }: Problem): string {
  return together([message, hint]);
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
  return one?.message === other?.message;
}

export function needsLogin({ code }: Problem): boolean {
  return code === 'login-needed';
}
