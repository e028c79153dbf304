// Notifications of commands. Without `autoClose` JupyterLab shows a notification only in its list.
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import { make, paragraph } from '../dom';
import { isOfFile, missing } from '../later';
import { told } from '../messages';
import { problemOf } from '../model/model';
import { trans } from '../translation';

const SEEN = { autoClose: 10_000 } as const;
/** JupyterLab truncates longer notifications. */
const MOST = 140;

export function say(message: string): void {
  Notification.info(message, SEEN);
}

export function warn(message: string): void {
  Notification.warning(message, SEEN);
}

/** Report the result of a long operation. A click shows a long message in full. */
export function announce(message: string, type: Notification.TypeOptions): void {
  const whole = {
    label: trans.__('Show all'),
    callback: () => void showDialog({ body: message, buttons: [Dialog.okButton()] })
  };
  Notification.emit(message, type, { ...SEEN, actions: message.length > MOST ? [whole] : [] });
}

/**
 * Report that `what` failed and why. Use a dialog if the message is long, or if there is more text
 * from a host or program.
 */
export function tell(error: unknown, what: string): void {
  const found = isOfFile(error) ? null : problemOf(error);
  const why = found === null ? missing() : told(found);
  const detail = found?.detail ?? '';
  const message = `${what}: ${why}`;
  if (message.length <= MOST && detail === '') {
    Notification.error(message, SEEN);
    return;
  }
  const body = make('div', { className: 'jp-slurm' }, paragraph(why));
  if (detail !== '') {
    body.append(make('pre', { className: 'jp-slurm-Code', tabIndex: 0 }, detail));
  }
  void showDialog({ title: what, body: new Widget({ node: body }), buttons: [Dialog.okButton()] });
}

type Options = Omit<CommandRegistry.ICommandOptions, 'label' | 'describedBy'> & {
  label: string;
  /** The schema of its arguments; undefined if it has none. */
  takes?: ReadonlyJSONObject;
};

/** Add a command that reports its errors under its label and then returns null. */
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
