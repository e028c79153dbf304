// What a command has to say when it is done, or could not be. A notification that says nothing of
// how long it is to be seen is never seen: it goes to the list behind the status bar at once.
import { Dialog, Notification, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import { isOfFile, missing } from '../later';
import { told } from '../messages';
import { problemOf } from '../model/model';
import { trans } from '../translation';

const SEEN = { autoClose: 10_000 } as const;
/** JupyterLab cuts off what is longer. */
const MOST = 140;

export function say(message: string): void {
  Notification.info(message, SEEN);
}

export function warn(message: string): void {
  Notification.warning(message, SEEN);
}

/** What came of something that began long ago: where it is long, all of it is a click away. */
export function announce(message: string, type: Notification.TypeOptions): void {
  const whole = {
    label: trans.__('Show all'),
    callback: () => void showDialog({ body: message, buttons: [Dialog.okButton()] })
  };
  Notification.emit(message, type, { ...SEEN, actions: message.length > MOST ? [whole] : [] });
}

/** That `what` has failed, and why: all of it, in a dialog where it is long. */
export function tell(error: unknown, what: string): void {
  const why = isOfFile(error) ? missing() : told(problemOf(error));
  const message = `${what}: ${why}`;
  if (message.length > MOST) {
    void showErrorMessage(what, why);
  } else {
    Notification.error(message, SEEN);
  }
}

type Options = Omit<CommandRegistry.ICommandOptions, 'label' | 'describedBy'> & {
  label: string;
  /** The schema of its arguments; undefined: it has none. */
  takes?: ReadonlyJSONObject;
};

/** Adds a command that tells by its label what has gone wrong, and then gives null. */
export function addCommand(commands: CommandRegistry, id: string, command: Options): void {
  const { takes = { type: 'object', properties: {} }, execute, ...options } = command;
  commands.addCommand(id, {
    ...options,
    describedBy: { args: takes },
    execute: async args => {
      try {
        return (await execute(args)) as unknown;
      } catch (error) {
        tell(error, options.label);
        return null;
      }
    }
  });
}
