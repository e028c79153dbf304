import { CommandRegistry } from '@lumino/commands';
import { act } from 'react';
import { createRoot } from 'react-dom/client';
import { FakeModel, job } from '../../__tests__/fakes';
import { problem } from '../../messages';
import type { Freshness } from '../../tokens';
import type { Job } from '../../wire';
import { Head } from '../head';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

const lost = problem('lost', 'No answer.');

test.each<[string, boolean, Partial<Job>]>([
  ['runs on with a fresh state', false, {}],
  ['stands while the server is lost', true, {}],
  ['stands while the cluster is lost', false, { problem: lost }]
])('the time of a running job %s', (_, isServerLost, more) => {
  const nowS = Date.now() / 1000;
  const running = job({ state: 'RUNNING', started_s: nowS - 120, limit_s: null });
  const host = document.createElement('div');
  const drawn = createRoot(host);
  const draw = (shown: Job, freshness: Freshness): string => {
    const model = Object.assign(new FakeModel(), { freshness });
    act(() => drawn.render(<Head job={shown} model={model} commands={new CommandRegistry()} />));
    return host.querySelector('dl')?.textContent ?? '';
  };
  const fresh = { asOf: nowS, problem: null };
  const before = draw(running, fresh);
  const freshness = isServerLost ? { asOf: nowS, problem: lost } : fresh;
  const known = { ...running, ...more, problem_since_s: more.problem ? nowS : null } as Job;
  draw(known, freshness);
  act(() => jest.advanceTimersByTime(60_000));
  const after = draw(known, freshness);
  expect(after === before).toBe(isServerLost || more.problem != null);
  act(() => drawn.unmount());
});
