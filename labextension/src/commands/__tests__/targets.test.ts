import { FakeModel } from '../../__tests__/fakes';
import type { Cluster, Connection } from '../../wire';
import { clusterToShow } from '../targets';

test('a panel shows the default cluster unless only another cluster is connected', async () => {
  const model = new FakeModel();
  model.clusters = ['far', 'near'].map(name => ({ name, default: name === 'far' }) as Cluster);
  const shown = async (far: string, near: string): Promise<string> => {
    const known = [
      ['far', far],
      ['near', near]
    ].map(([cluster, state]) => [cluster, { cluster, state } as Connection] as const);
    model.connections = new Map(known as [string, Connection][]);
    return clusterToShow(model);
  };
  expect(await shown('closed', 'closed')).toBe('far');
  expect(await shown('closed', 'local')).toBe('near');
  expect(await shown('open', 'local')).toBe('far');
});
