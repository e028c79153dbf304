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

test('a message reaches only its watch', () => {
  const [jobs, queue] = [new Heard(), new Heard()];
  socket.watch('changes', {}, jobs);
  socket.watch('node_changes', { cluster: 'a' }, queue);
  const opened = FakeSocket.last.open();
  expect(opened.sent.map(one => [one.watch, one.call, one.cursor])).toEqual([
    [1, 'changes', ''],
    [2, 'node_changes', '']
  ]);
  opened.say({ watch: 2, value: { cursor: 'q1' } });
  opened.say({ watch: 7, value: { cursor: 'nobody' } });
  expect(jobs.values).toEqual([]);
  expect(queue.values).toEqual([{ cursor: 'q1' }]);
});

test('a lost connection is reported and resumed from its cursor', () => {
  const heard = new Heard();
  socket.watch('changes', {}, heard);
  FakeSocket.last.open().say({ watch: 1, value: { cursor: 'c9' } });
  FakeSocket.last.break();
  expect(heard.problems.map(one => one.code)).toEqual(['server-unreachable']);
  jest.advanceTimersByTime(1_000);
  expect(FakeSocket.all).toHaveLength(2);
  expect(FakeSocket.last.open().sent).toMatchObject([{ watch: 1, cursor: 'c9' }]);
});

test('an unreachable server is retried at growing intervals', () => {
  socket.watch('changes', {}, new Heard());
  for (let minute = 0; minute < 10; minute += 1) {
    for (let second = 0; second < 60; second += 1) {
      FakeSocket.last.break();
      jest.advanceTimersByTime(1_000);
    }
  }
  expect(FakeSocket.all.length).toBeLessThan(60);
});

test('a silent connection is treated as lost, as after a sleep', () => {
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

test('background watches continue while the tab is hidden', () => {
  socket.watch('changes', {}, new Heard(), { background: true });
  socket.watch('node_changes', {}, new Heard());
  const opened = FakeSocket.last.open();
  hideTab(true);
  expect(opened.readyState).toBe(FakeSocket.OPEN);
  expect(opened.sent.at(-1)).toEqual({ unwatch: 2 });
  hideTab(false);
  expect(opened.sent.at(-1)).toMatchObject({ watch: 2 });
});
