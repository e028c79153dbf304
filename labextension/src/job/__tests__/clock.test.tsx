import { CommandRegistry } from '@lumino/commands';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { connection, FakeModel, job } from '../../__tests__/fakes';
import { problem } from '../../messages';
import type { Problem } from '../../wire';
import { Head } from '../head';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

const lost = problem('lost', 'No answer.');

test.each<[string, { server?: Problem; connection?: Problem; job?: Problem }]>([
  ['runs on with a fresh state', {}],
  ['stands while the server is lost', { server: lost }],
  ['stands while the connection is lost', { connection: lost }],
  ['stands while the cluster does not answer', { job: lost }]
])('the time of a running job %s', (_, problems) => {
  const nowS = Date.now() / 1000;
  const running = job({ state: 'RUNNING', started_s: nowS - 120, limit_s: null });
  const host = document.createElement('div');
  const drawn = createRoot(host);
  const draw = (now: typeof problems): string => {
    const shown = job({
      ...running,
      problem: now.job ?? null,
      problem_since_s: now.job ? nowS : null
    });
    const model = Object.assign(new FakeModel(), {
      freshness: { asOf: nowS, problem: now.server ?? null },
      connections: new Map([['arandu', connection({ problem: now.connection ?? null })]])
    });
    act(() => drawn.render(<Head job={shown} model={model} commands={new CommandRegistry()} />));
    return host.querySelector('dl')?.textContent ?? '';
  };
  const before = draw({});
  draw(problems);
  act(() => jest.advanceTimersByTime(60_000));
  expect(draw(problems) === before).toBe(Object.keys(problems).length > 0);
  act(() => drawn.unmount());
});
