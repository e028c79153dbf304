import type { JupyterFrontEnd } from '@jupyterlab/application';
import { InputDialog, type Dialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { FakeModel, job } from '../../__tests__/fakes';
import { CommandIDs } from '../../tokens';
import { plugin } from '../plugin';

jest.mock('@jupyterlab/notebook', () => ({ NotebookPanel: class {} }));

interface Started {
  /** The call of the server. */
  call: jest.Mock;
  /** The names of the terminals that JupyterLab has opened. */
  opened: unknown[];
  open: () => Promise<void>;
  enabled: (id: string) => boolean;
}

function started(nodes: string[]): Started {
  const commands = new CommandRegistry();
  const call = jest.fn().mockResolvedValue({ name: '3' });
  const model = Object.assign(new FakeModel(), { callLoggedIn: call });
  model.put(job({ id: 'abcdefgh', state: 'RUNNING', nodes }));
  model.put(job({ id: 'bcdefghi', state: 'RUNNING', nodes, tasks: { RUNNING: '0-3' } }));
  const opened: unknown[] = [];
  commands.addCommand('terminal:open', { execute: args => opened.push(args.name) });
  void plugin.activate({ commands } as unknown as JupyterFrontEnd, model, null);
  const open = (): Promise<void> => commands.execute(CommandIDs.openTerminal, { id: 'abcdefgh' });
  const enabled = (id: string): boolean => commands.isEnabled(CommandIDs.openTerminal, { id });
  return { call, opened, open, enabled };
}

function chosen(node: string | null): void {
  const answer = { value: node } as Dialog.IResult<string>;
  jest.spyOn(InputDialog, 'getItem').mockResolvedValueOnce(answer);
}

afterEach(() => jest.restoreAllMocks());

describe('a terminal in a job', () => {
  test.each([
    ['of one node', ['n1'], null, null],
    ['of two, on the chosen one', ['n1', 'n2'], 'n2', 'n2']
  ])('%s is created by the server and opened by JupyterLab', async (_, nodes, choice, node) => {
    const { call, opened, open } = started(nodes);
    chosen(choice);
    await open();
    expect(call).toHaveBeenCalledWith('arandu', 'terminal', { job_id: 'abcdefgh', node });
    expect(opened).toEqual(['3']);
  });

  test('is not offered for an array, whose tasks are separate jobs', () => {
    const { enabled } = started(['n1']);
    expect(['abcdefgh', 'bcdefghi'].map(enabled)).toEqual([true, false]);
  });
});
