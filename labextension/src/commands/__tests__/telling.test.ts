import { showDialog } from '@jupyterlab/apputils';
import type { Widget } from '@lumino/widgets';
import { problem } from '../../messages';
import { SlurmError } from '../../server';
import { tell } from '../telling';

jest.mock('@jupyterlab/apputils', () => ({
  ...jest.requireActual<object>('@jupyterlab/apputils'),
  showDialog: jest.fn()
}));

test("a failure is shown with the host's message", () => {
  const detail = 'WARNING: Your password has expired.';
  tell(new SlurmError(problem('login', 'The password has expired.', { detail }), 401), 'Connect');
  const [shown] = jest.mocked(showDialog).mock.lastCall ?? [];
  expect(shown?.title).toBe('Connect');
  expect((shown?.body as Widget).node.textContent).toBe(`The password has expired.${detail}`);
});
