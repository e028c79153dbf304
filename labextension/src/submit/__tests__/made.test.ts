// The results of the commands that open the form.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { FakeModel, job } from '../../__tests__/fakes';
import { CommandIDs } from '../../tokens';
import type { Job } from '../../wire';
import { addSubmitCommands, type Form } from '../commands';

function commandsOf(made: Job | null): { commands: CommandRegistry; form: Form } {
  const commands = new CommandRegistry();
  const content = { made: { promise: Promise.resolve(made) } };
  const form: Form = { content, isDisposed: false, dispose: jest.fn() };
  addSubmitCommands({
    app: { commands } as unknown as JupyterFrontEnd,
    model: new FakeModel(),
    browser: () => null,
    notebooks: null,
    open: () => Promise.resolve(form)
  });
  return { commands, form };
}

test.each([CommandIDs.submit, CommandIDs.startLab])('%s gives the job', async id => {
  const made = job({ id: 'aaaaaaaa' });
  expect(await commandsOf(made).commands.execute(id)).toBe(made);
  expect(await commandsOf(null).commands.execute(id)).toBeNull();
});

test('the launcher is given the form, which takes its place', async () => {
  const { commands, form } = commandsOf(null);
  expect(await commands.execute(CommandIDs.submit, { isLauncher: true })).toBe(form);
});
