import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import type { JSX } from 'react';
import { drawn } from '../../__tests__/drawn';
import { FakeModel } from '../../__tests__/fakes';
import type { Cluster } from '../../wire';
import { ClusterPanel } from '../cluster_panel';

function panelOf(model: FakeModel, cluster: string): ClusterPanel<null> {
  const kind = {
    name: 'queue',
    command: 'open',
    label: 'Slurm queue',
    caption: '',
    title: (name: string) => `Queue of ${name}`,
    className: 'Queue'
  };
  const View = (props: { cluster: string }): JSX.Element => <p>The queue of {props.cluster}</p>;
  const commands = new CommandRegistry();
  const remember = jest.fn();
  return new ClusterPanel(kind, View, { cluster, model, commands, look: null, remember });
}

async function text(panel: Widget, first: () => void): Promise<string> {
  await drawn(first);
  return panel.node.textContent ?? '';
}

test('the panel of a cluster that was removed says so, and shows it when it is there again', async () => {
  const model = new FakeModel();
  const panel = panelOf(model, 'far');
  const shown = await text(panel, () => Widget.attach(panel, document.body));
  expect(shown).toBe('The queue of far');
  const told = (removed: string[]) => () => {
    model.removed = removed;
    model.changed.emit();
  };
  expect(await text(panel, told(['far']))).toBe('Cluster far was removed');
  expect(await text(panel, told([]))).toBe('The queue of far');
  model.hasNoCluster = true;
  expect(await text(panel, told(['far']))).toContain('No cluster yet');
});

test('a panel that was opened without a cluster takes the first, once somebody sees it', async () => {
  const model = new FakeModel();
  const panel = panelOf(model, '');
  const before = await text(panel, () => Widget.attach(panel, document.body));
  expect(before).toContain('No cluster yet');
  panel.hide();
  expect(model.watchers).toEqual([]);
  const found = await text(panel, () => {
    model.clusters = [{ name: 'near', default: true } as unknown as Cluster];
    panel.show();
  });
  expect([found, panel.title.label]).toEqual(['The queue of near', 'Queue of near']);
});
