import { News, type Channel } from '../tabs';

/** A channel between tabs of one browser. */
class Bus {
  readonly ends: Channel[] = [];

  channel(): Channel {
    const end: Channel = {
      onmessage: null,
      postMessage: message => {
        for (const other of this.ends.filter(one => one !== end)) {
          other.onmessage?.({ data: message } as MessageEvent<typeof message>);
        }
      }
    };
    this.ends.push(end);
    return end;
  }
}

/** A tab for each of `seen`. */
function tabs(...seen: boolean[]): { told: string[][]; news: News<string>[] } {
  const bus = new Bus();
  const told: string[][] = seen.map(() => []);
  const news = seen.map((is, at) => {
    const tell = (items: string[]): void => {
      told[at]?.push(...items);
    };
    return new News<string>(bus.channel(), tell, () => is);
  });
  return { told, news };
}

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('only one of several tabs shows a notification', () => {
  const { told, news } = tabs(true, true, true, false, false);
  for (const tab of news) {
    tab.hear('job end', 'it ended');
  }
  jest.advanceTimersByTime(5_000);
  for (const tab of news) {
    tab.hear('job end', 'it ended');
  }
  jest.advanceTimersByTime(5_000);
  expect(told.flat()).toEqual(['it ended']);
});

test('the visible tab shows a notification, even if a hidden tab received it first', () => {
  const { told, news } = tabs(false, true);
  news[0]?.hear('job end', 'it ended');
  jest.advanceTimersByTime(500);
  news[1]?.hear('job end', 'it ended');
  jest.advanceTimersByTime(5_000);
  expect(told).toEqual([[], ['it ended']]);
});
