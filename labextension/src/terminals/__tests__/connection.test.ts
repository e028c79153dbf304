import type { ServerConnection, Terminal } from '@jupyterlab/services';
import { FakeModel, job } from '../../__tests__/fakes';
import { FakeSocket } from '../../model/__tests__/fakes';
import { JobTerminal, type End } from '../connection';
import { endWords } from '../words';

function terminal(): { one: JobTerminal; shown: () => string; ends: End[] } {
  const ends: End[] = [];
  let text = '';
  const one = new JobTerminal(
    'fit',
    { WebSocket: FakeSocket } as unknown as ServerConnection.ISettings,
    {
      url: number => `ws://x/${String(number)}`,
      said: line => line,
      ended: end => {
        ends.push(end);
        return Promise.resolve([end.how]);
      }
    }
  );
  one.messageReceived.connect((_, message: Terminal.IMessage) => {
    text += String(message.content?.[0]);
  });
  return { one, shown: () => text, ends };
}

const size: Terminal.IMessage = { type: 'set_size', content: [24, 80, 1, 1] };

test('its size is said as soon as it can be, and each time that it is opened again', async () => {
  const { one } = terminal();
  one.send(size);
  const first = FakeSocket.last.open();
  one.send({ type: 'stdin', content: ['ls\r'] });
  expect(first.sent).toEqual([
    ['set_size', 24, 80, 1, 1],
    ['stdin', 'ls\r']
  ]);
  await one.reconnect();
  expect(first.readyState).toBe(3);
  expect(FakeSocket.last.open().sent).toEqual([['set_size', 24, 80, 1, 1]]);
});

test('opened again it is the same terminal of its job', async () => {
  const { one } = terminal();
  expect(FakeSocket.last.url).toBe('ws://x/null');
  FakeSocket.last.open().say(['number', 2]);
  await one.reconnect();
  expect(FakeSocket.last.url).toBe('ws://x/2');
});

test('what is typed when nobody takes it is gone', () => {
  const { one } = terminal();
  one.send({ type: 'stdin', content: ['rm x\r'] });
  expect(FakeSocket.last.open().sent).toEqual([]);
});

test('a shell that ends closes it; one that is told why stays to be read', async () => {
  const gone = terminal();
  FakeSocket.last.open().say(['exited', 0]);
  expect(gone.one.isDisposed).toBe(true);
  const stays = terminal();
  FakeSocket.last.open().say(['said', 'The job is being ended.']);
  FakeSocket.last.say(['exited', 129]);
  await Promise.resolve();
  expect(stays.one.isDisposed).toBe(false);
  expect(stays.ends).toEqual([{ how: 'lost' }]);
  expect(stays.shown()).toMatch(/\[The job is being ended\.\]\r\n.*\[lost\]\r\n$/s);
});

test('a line that breaks is told once, and nothing after the tab is closed', async () => {
  const { one, ends, shown } = terminal();
  const socket = FakeSocket.last.open();
  const statuses: string[] = [];
  one.connectionStatusChanged.connect((_, status) => statuses.push(status));
  socket.break();
  one.dispose();
  await Promise.resolve();
  expect(ends).toEqual([{ how: 'server-lost' }]);
  expect(statuses).toEqual(['disconnected']);
  expect(shown()).toBe('');
});

test('the end of its job is waited for and told, with why', async () => {
  const model = new FakeModel();
  model.put(job());
  const words = endWords({ how: 'lost' }, job().id, model);
  model.put(job({ state: 'TIMEOUT', why: 'It reached\x1b its time limit.' }));
  expect(await words).toEqual(['The job has ended. It reached\ufffd its time limit.']);
  model.put(job());
  expect(await endWords({ how: 'lost' }, job().id, model, 0)).toEqual([
    'The terminal is lost: nothing comes from there any more.'
  ]);
});

test('what kept it from being opened is told whole, without control characters', async () => {
  const problem = {
    code: 'forward',
    message: 'No.',
    hint: 'Wait.',
    detail: 'srun: a\nsrun: \x1b[2Jb',
    option: null,
    transient: false
  };
  const words = await endWords({ how: 'problem', problem }, 'x', new FakeModel());
  expect(words).toEqual(['No.', 'Wait.', 'srun: a', 'srun: \ufffd[2Jb']);
});
