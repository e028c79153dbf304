import { Notification, showErrorMessage } from '@jupyterlab/apputils';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { connection, FakeModel } from '../../__tests__/fakes';
import { SlurmError } from '../../server';
import { CommandIDs, type ISlurmModel } from '../../tokens';
import { addClusterCommands } from '../clusters';
import { tell } from '../telling';

jest.mock('@jupyterlab/apputils', () => ({
  Notification: { error: jest.fn() },
  showErrorMessage: jest.fn()
}));

function refusal(message: string): SlurmError {
  const rest = { hint: 'Ask.', detail: null, option: null, transient: false };
  return new SlurmError({ code: 'x', message, ...rest }, 400);
}

beforeEach(() => {
  jest.clearAllMocks();
});

test('a message too long for a notification is shown whole in a dialog', () => {
  tell(refusal('Slurm refused.'), 'Hold');
  expect(Notification.error).toHaveBeenCalledWith('Hold: Slurm refused. Ask.', expect.anything());
  expect(showErrorMessage).not.toHaveBeenCalled();
  const long = 'Slurm refused. '.repeat(10).trim();
  tell(refusal(long), 'Hold');
  expect(Notification.error).toHaveBeenCalledTimes(1);
  expect(showErrorMessage).toHaveBeenCalledWith('Hold', `${long} Ask.`);
});

test.each([
  [true, 'No route.', 0],
  [true, 'Another one.', 1],
  [false, 'No route.', 1]
])(
  'the reason for a failed connection is shown once (shown by the caller: %s, as %s)',
  async (isShown, message, told) => {
    jest.useFakeTimers();
    const commands = new CommandRegistry();
    const error = refusal('No route.');
    const model: ISlurmModel = Object.assign(new FakeModel(), {
      connect: () => Promise.reject(error),
      connections: new Map([['arandu', connection({ problem: refusal(message).problem })]])
    });
    addClusterCommands({ commands } as unknown as JupyterFrontEnd, model);
    const done = commands.execute(CommandIDs.connect, { cluster: 'arandu', isShown });
    await jest.runAllTimersAsync();
    await done;
    jest.useRealTimers();
    expect(Notification.error).toHaveBeenCalledTimes(told);
  }
);
