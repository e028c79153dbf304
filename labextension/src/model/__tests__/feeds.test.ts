import { chunk, out } from '../../job/__tests__/fakes';
import type { LogChunk } from '../../wire';
import { LogFeed } from '../feeds';
import { WatchSocket } from '../socket';
import { FakeSocket, hideTab, settings } from './fakes';

let socket: WatchSocket;

beforeEach(() => {
  jest.useFakeTimers();
  Object.assign(globalThis, { WebSocket: FakeSocket });
  FakeSocket.all = [];
  hideTab(false);
  socket = new WatchSocket(settings);
});

afterEach(() => {
  socket.dispose();
  jest.useRealTimers();
});

/** A watched log, its received chunks, and its socket. */
function watched(): { feed: LogFeed; heard: LogChunk[]; line: FakeSocket } {
  const feed = new LogFeed(socket, 'j');
  const heard: LogChunk[] = [];
  feed.chunk.connect((_, one) => heard.push(one));
  return { feed, heard, line: FakeSocket.last.open() };
}

test('the next chunk of a log is requested once the last is drawn', () => {
  const { heard, line } = watched();
  expect(line.sent).toMatchObject([{ watch: 1, call: 'logs', paced: true }]);
  line.say({ watch: 1, value: chunk(out('one')) });
  expect(heard).toHaveLength(1);
  expect(line.sent).toHaveLength(1);
  jest.advanceTimersByTime(1_000);
  expect(line.sent.slice(1)).toEqual([{ taken: 1 }]);
});

test('a paused log requests nothing and resumes from its cursor', () => {
  const { feed, heard, line } = watched();
  line.say({ watch: 1, value: { ...chunk(out('one')), cursor: 'c1' } });
  feed.rest();
  jest.advanceTimersByTime(1_000);
  expect(line.sent.slice(1)).toEqual([{ unwatch: 1 }]);
  line.say({ watch: 1, value: chunk(out('under way')) });
  feed.wake();
  const again = FakeSocket.last.open();
  expect(again.sent).toMatchObject([{ watch: 2, cursor: 'c1', paced: true }]);
  again.say({ watch: 2, value: { ...chunk(out('two')), cursor: 'c2' } });
  expect(heard.flatMap(one => one.outputs)).toEqual([out('one'), out('two')]);
  jest.advanceTimersByTime(1_000);
  expect(again.sent.slice(1)).toEqual([{ taken: 2 }]);
});
