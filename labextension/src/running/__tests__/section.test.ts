import { CommandRegistry } from '@lumino/commands';
import { FakeModel, job } from '../../__tests__/fakes';
import { CommandIDs } from '../../tokens';
import { LastingJobs } from '../section';

function section(model: FakeModel): {
  section: LastingJobs;
  done: unknown[][];
  news: () => number;
} {
  const commands = new CommandRegistry();
  const done: unknown[][] = [];
  for (const id of [CommandIDs.openLab, CommandIDs.openJob, CommandIDs.cancel]) {
    commands.addCommand(id, { execute: args => done.push([id, args.id]) });
  }
  const section = new LastingJobs(model, commands);
  let count = 0;
  section.runningChanged.connect(() => (count += 1));
  return { section, done, news: () => count };
}

function told(section: LastingJobs): [string, string | undefined][] {
  return section.running().map(item => [item.label() as string, item.detail?.()]);
}

test('what keeps a node until it is ended is listed, and no batch job', () => {
  const model = new FakeModel();
  model.put(job({ id: 'one', kind: 'lab', name: 'mine', nodes: ['n1'] }));
  model.put(job({ id: 'two', kind: 'session', name: 'warm', state: 'PENDING' }));
  model.put(job({ id: 'three', kind: 'kernel', state: 'CANCELLED' }));
  model.put(job({ id: 'four', kind: 'script' }));
  expect(told(section(model).section)).toEqual([
    ['mine', 'n1'],
    ['warm', 'waiting']
  ]);
});

test('a lab is opened, another job shown, and either ended by the command that asks', () => {
  const model = new FakeModel();
  model.put(job({ id: 'one', kind: 'lab' }));
  model.put(job({ id: 'two', kind: 'session' }));
  const { section: shown, done } = section(model);
  for (const item of shown.running()) {
    item.open?.();
    item.shutdown?.();
  }
  expect(done).toEqual([
    [CommandIDs.openLab, 'one'],
    [CommandIDs.cancel, 'one'],
    [CommandIDs.openJob, 'two'],
    [CommandIDs.cancel, 'two']
  ]);
});

test('only news of these jobs draw the panel anew', () => {
  const model = new FakeModel();
  const { section: shown, news } = section(model);
  model.put(job({ id: 'one', kind: 'script' }));
  expect(news()).toBe(0);
  model.put(job({ id: 'two', kind: 'lab' }));
  expect(news()).toBe(1);
  model.put(job({ id: 'two', kind: 'lab', state: 'COMPLETED' }));
  expect([news(), told(shown)]).toEqual([2, []]);
});
