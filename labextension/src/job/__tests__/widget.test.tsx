import { Widget } from '@lumino/widgets';
import type { JSX } from 'react';
import { drawn } from '../../__tests__/drawn';
import { connection, FakeModel, job } from '../../__tests__/fakes';
import type { Job } from '../../wire';
import type { Services } from '../view';
import { useSeen } from '../../watching';
import { JobPanel } from '../widget';

const mockDrawn: string[] = [];
jest.mock('../view', () => ({
  JobPanelView: ({ job: { id, state } }: { job: Job }): JSX.Element => {
    mockDrawn.push(`${id} ${state}${useSeen() ? '' : ' unseen'}`);
    return <p>{state}</p>;
  }
}));

/** What is drawn of the panels while that is done. */
async function drawnBy(act: () => void): Promise<string[]> {
  mockDrawn.length = 0;
  await drawn(act);
  return [...mockDrawn];
}

test('a panel that is hidden is drawn once more, and then not until it is shown', async () => {
  const model = new FakeModel();
  const services = { model } as unknown as Services;
  model.put(job({ id: 'one' }));
  const panel = new JobPanel('one', services, '');
  const ended = (): void => model.put(job({ id: 'one', state: 'COMPLETED' }));
  const attached = (): void => Widget.attach(panel, document.body);
  expect(new Set(await drawnBy(attached))).toEqual(new Set(['one RUNNING']));
  expect(model.seen).toEqual(['one']);
  expect(await drawnBy(() => panel.hide())).toEqual(['one RUNNING unseen']);
  expect(model.seen).toEqual([]);
  expect(await drawnBy(ended)).toEqual([]);
  expect(panel.title.caption).toContain('done');
  expect(await drawnBy(() => panel.show())).toEqual(['one COMPLETED']);
  expect(model.seen).toEqual(['one']);
});

test('of open panels that one is drawn anew whose job has changed, once', async () => {
  const model = new FakeModel();
  const services = { model } as unknown as Services;
  const [one, other, third] = ['one', 'other', 'third'];
  [one, other, third].forEach(id => model.put(job({ id })));
  const [panel, beside] = [one, other].map(id => new JobPanel(id, services, ''));
  await drawn(() =>
    [panel, beside].forEach(shown => {
      if (shown !== undefined) {
        Widget.attach(shown, document.body);
      }
    })
  );
  const changed = (id: string, state: Job['state']) => () => model.put(job({ id, state }));
  expect(await drawnBy(changed(third, 'COMPLETED'))).toEqual([]);
  expect(await drawnBy(changed(one, 'COMPLETED'))).toEqual(['one COMPLETED']);
  const way = connection({ state: 'lost' });
  const lost = (): void => {
    model.connections = new Map([['arandu', way]]);
    model.changed.emit();
  };
  expect((await drawnBy(lost)).sort()).toEqual(['one COMPLETED', 'other RUNNING']);
  expect(panel?.title.caption).toContain('done');
});
