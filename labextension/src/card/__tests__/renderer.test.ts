import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { act } from 'react';
import { drawn } from '../../__tests__/drawn';
import { FakeModel, job } from '../../__tests__/fakes';
import type { Job } from '../../wire';
import { JobCard, MIME } from '../renderer';

const NAMES = { v: 1, cluster: 'arandu', id: 'a2b4c6d7' };

beforeEach(() => jest.useFakeTimers());
afterEach(() => {
  document.body.replaceChildren();
  jest.useRealTimers();
});

function shownBy(model: FakeModel, data: Record<string, unknown>): JobCard {
  const card = new JobCard(model, new CommandRegistry(), null);
  act(() => {
    Widget.attach(card, document.body);
    void card.renderModel({
      data,
      metadata: {},
      trusted: false,
      setData: () => undefined
    } as never);
  });
  return card;
}

/** The text of the card after `ms`. */
async function text(card: JobCard, ms = 50): Promise<string> {
  await drawn(() => jest.advanceTimersByTime(ms));
  return card.node.textContent ?? '';
}

test('a card shows only the model, nothing from the notebook', async () => {
  const model = new FakeModel();
  model.put(job());
  const bundle = { [MIME]: { ...NAMES, name: 'evil' }, 'text/plain': 'evil', 'text/html': 'evil' };
  const card = shownBy(model, bundle);
  expect(await text(card)).toMatch(/running.*fit.*Job 123 · arandu/);
  expect(await text(card)).not.toContain('evil');
  model.put(job({ state: 'COMPLETED' }));
  expect(await text(card)).toContain('done');
});

test('an unknown job is looked up for a while, and then its saved text is shown', async () => {
  const model = new FakeModel();
  const saved = '<b>✔ job</b>\n\u202etext';
  const card = shownBy(model, { [MIME]: NAMES, 'text/plain': saved });
  expect(await text(card)).toBe('Looking for job a2b4c6d7…');
  model.put(job({ id: 'zzzzzzzz' }));
  expect(await text(card)).toBe('Looking for job a2b4c6d7…');
  expect(await text(card, 4_000)).toMatch(/^<b>✔ job<\/b>\ufffdtextThis job is unknown to/);
  act(() => {
    card.hide();
    card.show();
  });
  expect(await text(card)).toMatch(/is unknown to this Jupyter server/);
  model.put(job());
  expect(await text(card)).toContain('running');
});

const COMPLETE = { ...NAMES, complete: true };
const OVER = { state: 'COMPLETED', delivered: false } as const;

/** Return the calls that a card makes. */
async function calledFor(named: unknown, known: Job): Promise<unknown[]> {
  const model = new FakeModel();
  const call = jest.fn(() => Promise.resolve());
  Object.assign(model, { call });
  model.put(known);
  await text(shownBy(model, { [MIME]: named }));
  model.put({ ...known, revision: known.revision + 1 });
  await drawn();
  return call.mock.calls;
}

test('a card that the kernel marks complete acknowledges the outcome once', async () => {
  expect(await calledFor(COMPLETE, job(OVER))).toEqual([['delivered', { job_id: 'a2b4c6d7' }]]);
});

test.each([
  ['has missed the end', NAMES, job(OVER)],
  ['shows an already delivered outcome', COMPLETE, job({ ...OVER, delivered: true })],
  ['names another job', COMPLETE, job({ ...OVER, id: 'zzzzzzzz' })]
])('a card that %s acknowledges nothing', async (_, named, known) => {
  expect(await calledFor(named, known)).toEqual([]);
});
