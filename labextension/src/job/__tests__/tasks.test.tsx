import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { drawn } from '../../__tests__/drawn';
import type { Job } from '../../wire';
import { TasksPane } from '../tasks';
import { job } from './fakes';

let root: Root;
let chosen: number[];

beforeEach(() => {
  chosen = [];
});

afterEach(() => {
  act(() => root.unmount());
  document.body.replaceChildren();
});

async function shown(tasks: Job['tasks']): Promise<HTMLElement> {
  const place = document.body.appendChild(document.createElement('div'));
  await drawn(() => {
    root = createRoot(place);
    root.render(
      <TasksPane job={job({ tasks })} chosen={null} choose={task => chosen.push(task)} />
    );
  });
  return place;
}

const names = (place: HTMLElement): (string | null)[] =>
  [...place.querySelectorAll('.jp-slurm-Task')].map(one => one.getAttribute('aria-label'));

const button = (place: HTMLElement, text: string): HTMLElement => {
  const all = [...place.querySelectorAll('button')];
  const found = all.find(one => (one.getAttribute('aria-label') ?? one.textContent) === text);
  if (found === undefined) {
    throw new Error(`no ${text} among ${all.map(one => one.textContent).join()}`);
  }
  return found;
};

test('every task is there by its index with its state, and leads to its log', async () => {
  const place = await shown({ COMPLETED: '0,2', FAILED: '1', PENDING: '3' });
  expect(names(place)).toEqual(['Task 0 done', 'Task 1 failed', 'Task 2 done', 'Task 3 waiting']);
  await drawn(() => button(place, 'Task 1 failed').click());
  expect(chosen).toEqual([1]);
});

test('those of one state are shown alone until it is pressed again', async () => {
  const place = await shown({ COMPLETED: '0-8', FAILED: '9' });
  const press = (text: string): Promise<void> => drawn(() => button(place, text).click());
  await press('✖ failed 1');
  expect(names(place)).toEqual(['Task 9 failed']);
  await press('✖ failed 1');
  expect(names(place)).toHaveLength(10);
});

test('one task is in the order of the Tab key, and arrows lead to the others', async () => {
  const place = await shown({ RUNNING: '0-4' });
  const inOrder = (): (string | null)[] =>
    [...place.querySelectorAll('.jp-slurm-Task[tabindex="0"]')].map(one =>
      one.getAttribute('aria-label')
    );
  expect(inOrder()).toEqual(['Task 0 running']);
  const press = (key: string): Promise<void> =>
    drawn(() => {
      document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    });
  await drawn(() => button(place, 'Task 0 running').focus());
  await press('ArrowRight');
  expect(inOrder()).toEqual(['Task 1 running']);
  await press('End');
  expect(inOrder()).toEqual(['Task 4 running']);
  await press('ArrowRight');
  expect(inOrder()).toEqual(['Task 4 running']);
});

test('of very many the first are shown, and how many there are', async () => {
  const place = await shown({ PENDING: '0-4999' });
  expect(names(place)).toHaveLength(2_000);
  expect(place.textContent).toContain('waiting 5000');
  expect(place.textContent).toContain('The first 2000 of 5000 tasks');
});
