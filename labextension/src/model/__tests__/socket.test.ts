import type { Problem } from '../../wire';
import { WatchSocket, type Listener } from '../socket';
import { FakeSocket, hideTab, settings } from './fakes';

interface Value {
  cursor: string;
}

class Heard implements Listener<Value> {
  readonly values: Value[] = [];
  readonly problems: Problem[] = [];

  value(value: Value): void {
    this.values.push(value);
  }

  problem(problem: Problem): void {
    this.problems.push(problem);
  }
}

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

test('nothing is opened before somebody watches, and it is closed after the last', () => {
  expect(FakeSocket.all).toHaveLength(0);
  const watch = socket.watch('changes', {}, new Heard());
  const opened = FakeSocket.last.open();
  expect(opened.url).toBe('ws://here/jupyter-slurm/api/watch?token=a%20b');
  watch.dispose();
  expect(opened.readyState).toBe(3);
  jest.advanceTimersByTime(120_000);
  expect(FakeSocket.all).toHaveLength(1);
});

test('what is new comes to the one who watches it', () => {
  const [jobs, queue] = [new Heard(), new Heard()];
  socket.watch('changes', {}, jobs);
  socket.watch('queue_changes', { cluster: 'a' }, queue);
  const opened = FakeSocket.last.open();
  expect(opened.sent.map(one => [one.watch, one.call, one.cursor])).toEqual([
    [1, 'changes', ''],
    [2, 'queue_changes', '']
  ]);
  opened.say({ watch: 2, value: { cursor: 'q1' } });
  opened.say({ watch: 7, value: { cursor: 'nobody' } });
  expect(jobs.values).toEqual([]);
  expect(queue.values).toEqual([{ cursor: 'q1' }]);
});

test('a line that breaks is told, and taken up from where it was', () => {
  const heard = new Heard();
  socket.watch('changes', {}, heard);
  FakeSocket.last.open().say({ watch: 1, value: { cursor: 'c9' } });
  FakeSocket.last.break();
  expect(heard.problems.map(one => one.code)).toEqual(['server-unreachable']);
  jest.advanceTimersByTime(1_000);
  expect(FakeSocket.all).toHaveLength(2);
  expect(FakeSocket.last.open().sent).toMatchObject([{ watch: 1, cursor: 'c9' }]);
});

test('a server that stays away is asked ever less often', () => {
  socket.watch('changes', {}, new Heard());
  for (let minute = 0; minute < 10; minute += 1) {
    for (let second = 0; second < 60; second += 1) {
      FakeSocket.last.break();
      jest.advanceTimersByTime(1_000);
    }
  }
  expect(FakeSocket.all.length).toBeLessThan(60);
});

test('a line that says nothing for long is taken for broken, as after a sleep', () => {
  const heard = new Heard();
  socket.watch('changes', {}, heard);
  const first = FakeSocket.last.open();
  jest.advanceTimersByTime(15_000);
  first.say({});
  jest.advanceTimersByTime(15_000);
  expect(heard.problems).toEqual([]);
  jest.advanceTimersByTime(10_000);
  expect(heard.problems).toHaveLength(1);
  expect(first.readyState).toBe(3);
});

test('while the tab is hidden nothing is watched, and then all from where it was', () => {
  const heard = new Heard();
  socket.watch('changes', {}, heard);
  const first = FakeSocket.last.open();
  first.say({ watch: 1, value: { cursor: 'c1' } });
  hideTab(true);
  expect(first.readyState).toBe(3);
  jest.advanceTimersByTime(600_000);
  expect(FakeSocket.all).toHaveLength(1);
  hideTab(false);
  expect(FakeSocket.last.open().sent).toMatchObject([{ watch: 1, cursor: 'c1' }]);
  expect(heard.problems).toEqual([]);
});

test('what is watched in the background goes on while the tab is hidden', () => {
  socket.watch('changes', {}, new Heard(), { background: true });
  socket.watch('queue_changes', {}, new Heard());
  const opened = FakeSocket.last.open();
  hideTab(true);
  expect(opened.readyState).toBe(FakeSocket.OPEN);
  expect(opened.sent.at(-1)).toEqual({ unwatch: 2 });
  hideTab(false);
  expect(opened.sent.at(-1)).toMatchObject({ watch: 2 });
});

test('an agent that is gone is told by the server, and the next news take it back', () => {
  const heard = new Heard();
  socket.watch('changes', {}, heard);
  const opened = FakeSocket.last.open();
  const problem = {
    code: 'agent',
    message: 'gone',
    hint: null,
    detail: null,
    option: null,
    transient: true
  };
  opened.say({ watch: 1, problem });
  opened.say({ watch: 1, value: { cursor: 'new' } });
  expect(heard.problems).toEqual([problem]);
  expect(heard.values).toEqual([{ cursor: 'new' }]);
});
