import { News, type Channel } from '../tabs';

/** Tabs of one browser: what one posts, the others hear. */
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

/** One for each of `seen`. */
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

test('of several tabs that hear the same, one tells it, once', () => {
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

test('a tab that is seen tells it, also where a hidden one has heard it first', () => {
  const { told, news } = tabs(false, true);
  news[0]?.hear('job end', 'it ended');
  jest.advanceTimersByTime(500);
  news[1]?.hear('job end', 'it ended');
  jest.advanceTimersByTime(5_000);
  expect(told).toEqual([[], ['it ended']]);
});

test('a hidden tab that is seen again does not tell what another has told meanwhile', () => {
  const { told, news } = tabs(false, true);
  news[1]?.hear('job end', 'it ended');
  jest.advanceTimersByTime(5_000);
  news[0]?.hear('job end', 'it ended');
  jest.advanceTimersByTime(5_000);
  expect(told).toEqual([[], ['it ended']]);
});

test('a tab that hears of it when another has told it does not tell it again', () => {
  const posted: { key: string; rank: number }[] = [];
  const quick = new News<string>(
    { onmessage: null, postMessage: one => posted.push(one) },
    jest.fn()
  );
  const slow: Channel = { onmessage: null, postMessage: jest.fn() };
  const tell = jest.fn();
  jest.spyOn(Math, 'random').mockReturnValueOnce(0.1).mockReturnValueOnce(0.9);
  quick.hear('job end', 'it ended');
  jest.advanceTimersByTime(5_000);
  new News<string>(slow, tell).hear('job end', 'it ended');
  for (const data of posted) {
    slow.onmessage?.({ data } as MessageEvent<(typeof posted)[number]>);
  }
  jest.advanceTimersByTime(5_000);
  expect(tell).not.toHaveBeenCalled();
});

test('what comes within a moment is told together; without a channel, too', () => {
  const told: string[][] = [];
  const news = new News<string>(null, items => told.push(items));
  news.hear('a', 'one');
  news.hear('b', 'two');
  jest.advanceTimersByTime(5_000);
  news.hear('c', 'three');
  jest.advanceTimersByTime(5_000);
  expect(told).toEqual([['one', 'two'], ['three']]);
});
