// What a command has to say when it is done, or could not be. A notification that says nothing of
// how long it is to be seen is never seen: it goes to the list behind the status bar at once.
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { isOfFile, missing } from '../later';
import { said } from '../messages';
import { problemOf } from '../model/model';

const SEEN = { autoClose: 10_000 } as const;

export function say(message: string): void {
  Notification.info(message, SEEN);
}

export function warn(message: string): void {
  Notification.warning(message, SEEN);
}

/** That `what` has failed, and why. */
export function tell(error: unknown, what: string, trans: TranslationBundle): void {
  const { message, hint } = problemOf(error);
  const lines = isOfFile(error)
    ? [`${what}: ${missing(trans)}`]
    : [`${what}: ${said(message, trans)}`, said(hint ?? '', trans)];
  Notification.error(lines.filter(Boolean).join('\n'), SEEN);
}
