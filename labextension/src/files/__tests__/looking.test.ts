import { Widget } from '@lumino/widgets';
import { lookWhileSeen, REFRESH_MS } from '../looking';

beforeEach(() => jest.useFakeTimers());
afterEach(() => {
  jest.restoreAllMocks();
  jest.useRealTimers();
});

test('files are refreshed every minute, except in a hidden page or file browser', async () => {
  const widget = new Widget();
  Widget.attach(widget, document.body);
  let looks = 0;
  const poll = lookWhileSeen(widget, () => {
    looks += 1;
    return Promise.resolve();
  });
  const passing = async (minutes: number): Promise<number> => {
    const before = looks;
    await jest.advanceTimersByTimeAsync(minutes * REFRESH_MS);
    return looks - before;
  };
  await passing(1);
  expect(await passing(5)).toBe(5);
  widget.hide();
  expect(await passing(5)).toBe(0);
  widget.show();
  expect(await passing(5)).toBe(5);
  const page = jest.spyOn(document, 'visibilityState', 'get');
  const become = (state: DocumentVisibilityState): void => {
    page.mockReturnValue(state);
    document.dispatchEvent(new Event('visibilitychange'));
  };
  become('hidden');
  expect(await passing(5)).toBe(0);
  become('visible');
  expect(await passing(5)).toBe(5);
  poll.dispose();
  expect(await passing(5)).toBe(0);
  widget.dispose();
});
