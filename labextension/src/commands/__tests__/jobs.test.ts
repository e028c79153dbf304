import type { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { FakeModel, job, type Fields } from '../../__tests__/fakes';
import { CommandIDs } from '../../tokens';
import { addJobCommands } from '../jobs';

// No notebook is open in this test, and loading the notebook code takes long.
jest.mock('@jupyterlab/notebook', () => ({ NotebookPanel: class {} }));

function commandsOf(model: FakeModel): CommandRegistry {
  const commands = new CommandRegistry();
  const app = { commands, shell: { currentWidget: null } } as unknown as JupyterFrontEnd;
  addJobCommands(app, model);
  return commands;
}

/** Return whether the command is available for this job: in its panel, and in menus. */
function offered(id: string, fields: Fields): [enabled: boolean, visible: boolean] {
  const model = new FakeModel();
  const one = job(fields);
  model.put(one);
  const commands = commandsOf(model);
  return [commands.isEnabled(id, { id: one.id }), commands.isVisible(id, { id: one.id })];
}

test('a running job can be requeued if Slurm permits it', () => {
  expect(offered(CommandIDs.requeue, { state: 'RUNNING' })).toEqual([true, true]);
  const refused = { state: 'RUNNING' as const, no_requeue: 'Slurm runs this job only once.' };
  expect(offered(CommandIDs.requeue, refused)).toEqual([false, false]);
});

test.each([
  [CommandIDs.hold, 'PENDING'],
  [CommandIDs.release, 'PENDING'],
  [CommandIDs.requeue, 'RUNNING'],
  [CommandIDs.extend, 'RUNNING']
] as const)("%s is offered for jobs in Slurm, not for a session's cells", (id, state) => {
  expect(offered(id, { state })[0]).toBe(true);
  expect(offered(id, { state, session: 'a2b4c6d7', slurm_id: null })[0]).toBe(false);
});

test('failed tasks of a sweep are submitted again', async () => {
  const callLoggedIn = jest.fn(() => Promise.resolve());
  const model = Object.assign(new FakeModel(), { callLoggedIn });
  const failed = { COMPLETED: '0-2', FAILED: '3' };
  expect(offered(CommandIDs.retry, { kind: 'sweep', tasks: failed })[0]).toBe(true);
  expect(offered(CommandIDs.retry, { kind: 'script', tasks: failed })[0]).toBe(false);
  model.put(job({ kind: 'sweep', tasks: failed }));
  await commandsOf(model).execute(CommandIDs.retry, { id: 'a2b4c6d7' });
  expect(callLoggedIn.mock.calls).toEqual([['arandu', 'retry', { job_id: 'a2b4c6d7' }]]);
});

test('an action on several jobs shows their number', () => {
  const model = new FakeModel();
  const states = ['RUNNING', 'PENDING', 'COMPLETED'] as const;
  states.forEach((state, at) => model.put(job({ id: `${at}`, state })));
  const commands = commandsOf(model);
  const all = { targets: states.map((_, at) => ({ cluster: 'arandu', id: `${at}` })) };
  const labels = (args: typeof all | { id: string }): string[] =>
    [CommandIDs.cancel, CommandIDs.hold, CommandIDs.copyId].map(id => commands.label(id, args));
  expect(labels(all)).toEqual(['Cancel (2)', 'Hold (1)', 'Copy job ID (3)']);
  expect(labels({ id: '0' })).toEqual(['Cancel', 'Hold', 'Copy job ID']);
});
