// Views that are loaded later, in a page that is older than the installed package.
import type { ComponentType } from 'react';
import { createRoot } from 'react-dom/client';
import { onceThereIs, later } from '../later';
import { tell } from '../commands/telling';
import { drawn } from './drawn';
import { FakeModel, job } from './fakes';

const mockTold: string[] = [];
jest.mock('@jupyterlab/apputils', () => ({
  Notification: { error: (message: string) => mockTold.push(message) }
}));
const RELOAD = 'JupyterLab could not load this view. Reload the page.';

/** As webpack rejects where the server has no such file any more. */
function gone(): Error {
  return Object.assign(new Error('Loading chunk 7 failed.'), { name: 'ChunkLoadError' });
}

test('a view whose code cannot be loaded says what to do', async () => {
  const View = later((): Promise<ComponentType> => Promise.reject(gone()));
  const host = document.createElement('div');
  await drawn(() => createRoot(host).render(<View />));
  await drawn();
  expect(host.querySelector('[role=status]')?.textContent).toBe(RELOAD);
});

test('so does a command whose code cannot be loaded', () => {
  tell(gone(), 'Open');
  expect(mockTold).toEqual([`Open: ${RELOAD}`]);
});

test('what watches jobs of a kind begins with the first one', () => {
  const model = new FakeModel();
  const begin = jest.fn(() => Promise.resolve());
  onceThereIs(model, ({ kind }) => kind === 'lab', begin);
  model.put(job());
  expect(begin).not.toHaveBeenCalled();
  model.put(job({ id: 'lab', kind: 'lab' }));
  model.put(job({ id: 'other', kind: 'lab' }));
  expect(begin).toHaveBeenCalledTimes(1);
});
