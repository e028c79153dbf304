import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { FakeModel, job, type Fields } from '../../__tests__/fakes';
import { cellsOf, changesOf, factsOf, leftS } from '../../tasks';
import type { Job, SweepTasks } from '../../wire';
import { cornerOf, layoutOf, moved, placeAt } from '../cells';
import { TaskGrid } from '../tasks';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

const TASKS = { COMPLETED: '0-3,7', FAILED: '4', RUNNING: '5-6', PENDING: '8-19' };

/** A drawing on a canvas: `fill` and `clear`, column and row of the cell, and its colour. */
let strokes: string[];
let host: HTMLElement;
let root: Root;
let chosen: number[];
let model: FakeModel;
let told: SweepTasks | null;
let asked: number;

beforeEach(() => {
  strokes = [];
  chosen = [];
  asked = 0;
  told = null;
  model = Object.assign(new FakeModel(), {
    call: () => {
      asked += 1;
      return told === null ? Promise.reject(new Error('lost')) : Promise.resolve(told);
    }
  });
  const context = {
    fillStyle: '',
    fillRect(x: number, y: number) {
      strokes.push(`fill ${x / 20} ${y / 20} ${this.fillStyle}`);
    },
    clearRect(x: number, y: number) {
      strokes.push(`clear ${x / 20} ${y / 20}`);
    },
    ...Object.fromEntries(
      ['setTransform', 'save', 'restore', 'translate', 'scale', 'fill'].map(name => [
        name,
        () => undefined
      ])
    )
  };
  jest.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(context as never);
  jest.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(205);
  Object.assign(globalThis, { Path2D: class {} });
  Object.assign(HTMLElement.prototype, {
    showPopover: () => undefined,
    scrollIntoView: () => undefined
  });
  host = document.body.appendChild(document.createElement('div'));
  // The name of a colour is the name of its variable.
  const style = { getPropertyValue: (name: string) => name };
  jest.spyOn(window, 'getComputedStyle').mockReturnValue(style as never);
  root = createRoot(host);
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
  jest.restoreAllMocks();
});

function draw(fields: Fields): void {
  const shown = job({ kind: 'sweep', tasks: TASKS, ...fields });
  const choose = (task: number): void => void chosen.push(task);
  act(() =>
    root.render(<TaskGrid job={shown} model={model} chosen={null} choose={choose} heightPx={99} />)
  );
}

function grid(): HTMLElement {
  return host.querySelector<HTMLElement>('[role=listbox]') ?? host;
}

/** Return the task at the keyboard's cursor, as a screen reader reads it. */
function current(): string {
  const id = grid().getAttribute('aria-activedescendant') ?? '';
  return document.getElementById(id)?.textContent ?? '';
}

function press(...keys: string[]): void {
  for (const key of keys) {
    act(() => void grid().dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })));
  }
}

/** A mouse event in the middle of a cell, in a grid with ten cells per row. */
async function mouse(type: string, place: number): Promise<void> {
  const at = { clientX: (place % 10) * 20 + 10, clientY: Math.floor(place / 10) * 20 + 10 };
  await act(async () => {
    grid().dispatchEvent(new MouseEvent(type, { ...at, bubbles: true }));
    await Promise.resolve();
  });
}

function tip(): string[] {
  return [...host.querySelectorAll('[role=tooltip] p')].map(line => line.textContent ?? '');
}

function details(of: Job): SweepTasks {
  const known = Array.from({ length: 20 }, () => null);
  return {
    job: of,
    states: of.tasks,
    reasons: { 'Out of memory.': '4' },
    nodes: { n1: '0-4' },
    elapsed_s: [61, ...known.slice(1)],
    peak_mib: [512, ...known.slice(1)],
    failures: [],
    params: { lr: Array.from({ length: 20 }, (_, at) => `${at}e-3`), seed: [] }
  } as unknown as SweepTasks;
}

test('runs of states are cells in the order of their indices', () => {
  const { indices, states } = cellsOf({ tasks: { FAILED: '3', COMPLETED: '1-2,10-14:2' } });
  expect(indices).toEqual([1, 2, 3, 10, 12, 14]);
  expect(states[2]).toBe('FAILED');
  const many = cellsOf({ tasks: { PENDING: '0-4000000' } });
  expect(many.indices).toHaveLength(100_000);
});

test('changes are found by cell, and different tasks are recognized', () => {
  const before = cellsOf({ tasks: { PENDING: '0-3' } });
  expect(changesOf(before, cellsOf({ tasks: { PENDING: '0,3', RUNNING: '1-2' } }))).toEqual([1, 2]);
  expect(changesOf(before, cellsOf({ tasks: { PENDING: '1-4' } }))).toBeNull();
  expect(changesOf(before, cellsOf({ tasks: { PENDING: '0-4' } }))).toBeNull();
});

test('cells are as large as possible, and stay visible', () => {
  const few = layoutOf(20, 205, 99);
  expect([few.pitch, few.columns, few.rows]).toEqual([20, 10, 2]);
  const many = layoutOf(10_000, 600, 120);
  expect([many.pitch, many.columns * many.rows >= 10_000]).toEqual([4, true]);
  expect(layoutOf(5, 0, 99).columns).toBe(1);
  expect(placeAt(few, 25, 21)).toBe(11);
  expect(placeAt(few, 204, 5)).toBeNull();
  expect(placeAt(few, 5, 45)).toBeNull();
  expect(cornerOf(few, 11)).toEqual({ x: 20, y: 20 });
  expect(moved(few, 3, 'ArrowDown')).toBe(13);
  expect(moved(few, 13, 'ArrowDown')).toBe(13);
  expect(moved(few, 0, 'ArrowLeft')).toBe(0);
  expect(moved(few, 3, 'x')).toBeNull();
});

test('the first drawing shows every task, and later drawings only the changed cells', () => {
  draw({});
  expect(strokes).toHaveLength(8); // a waiting task is a sign, not a filled cell
  expect(strokes).toContain('fill 4 0 --jp-error-color1');
  expect(strokes).toContain('fill 7 0 --jp-success-color1');
  strokes = [];
  draw({ tasks: { ...TASKS, RUNNING: '5', COMPLETED: '0-3,6-7' } });
  expect(strokes).toEqual(['clear 6 0', 'fill 6 0 --jp-success-color1']);
  strokes = [];
  draw({ tasks: { COMPLETED: '0-2' } });
  expect(strokes).toHaveLength(3);
});

test('each state shows its count, and a click on it shows only its tasks', () => {
  draw({});
  const names = [...host.querySelectorAll('[aria-label=Show] button')];
  expect(names.map(one => one.textContent)).toEqual([
    '✔ done 5',
    '✖ failed 1',
    '▶ running 2',
    '◷ waiting 12'
  ]);
  act(() => (names[1] as HTMLElement).click());
  expect(current()).toBe('Task 4 failed');
  expect(grid().querySelector('[role=option]')?.getAttribute('aria-setsize')).toBe('1');
});

test('the grid is one tab stop, and its keys move between tasks', () => {
  draw({});
  expect(grid().tabIndex).toBe(0);
  expect(grid().getAttribute('aria-description')).toContain('5 of 20 tasks done');
  act(() => grid().focus());
  expect(current()).toBe('Task 0 done');
  press('ArrowDown', 'ArrowRight');
  expect(current()).toBe('Task 11 waiting');
  press('End', 'ArrowUp', 'ArrowLeft');
  expect(current()).toBe('Task 8 waiting');
  expect(tip()).toEqual(['Task 8 waiting']);
  press('Enter');
  press('Home', ' ');
  expect(chosen).toEqual([8, 0]);
});

test('pointing at a cell shows parameters and state, and a click selects the task', async () => {
  draw({});
  told = details(job({ kind: 'sweep', tasks: TASKS }));
  await mouse('pointermove', 0);
  expect(asked).toBe(1);
  expect(tip()).toEqual(['Task 0 done', 'lr = 0e-3', 'seed = ?', 'n1 · 1 min 1 s · 512 MiB']);
  await mouse('pointermove', 4);
  expect(tip()).toEqual(['Task 4 failed', 'lr = 4e-3', 'seed = ?', 'Out of memory.', 'n1']);
  expect(asked).toBe(1);
  await mouse('click', 4);
  expect(chosen).toEqual([4]);
  await mouse('pointerout', 4);
  expect(tip()).toEqual([]);
});

test.each([
  ['a sweep without an answer about its details', 'sweep', 1],
  ['an array of a script', 'script', 0]
] as const)('%s shows states without details', async (_, kind, asks) => {
  draw({ kind, tasks: TASKS });
  await mouse('pointermove', 4);
  expect(tip()).toEqual(['Task 4 failed']);
  expect(asked).toBe(asks);
});

test('an exception replaces the reason of a task, with control characters visible', () => {
  const known = details(job({ kind: 'sweep', tasks: TASKS }));
  const failures = [{ tasks: '4', ename: 'ValueError', evalue: 'a\u202eb', traceback: [] }];
  expect(factsOf({ ...known, params: {}, failures }, 4)).toEqual(['ValueError: a\ufffdb', 'n1']);
});

test('the time left is computed from the rate so far', () => {
  const tasks = { all: 100, ended: 20, done: 20, failed: 0 };
  expect(leftS(tasks, { ended: 0, atS: 0 }, 10)).toBe(40);
  expect(leftS(tasks, { ended: 10, atS: 0 }, 10)).toBe(80);
  expect(leftS(tasks, { ended: 20, atS: 0 }, 10)).toBeNull();
  expect(leftS({ ...tasks, ended: 100 }, { ended: 0, atS: 0 }, 10)).toBeNull();
});

test('a sweep shows the time left, and after a retry only once tasks have ended', () => {
  const nowS = Date.now() / 1000;
  draw({ started_s: nowS - 600, state_since_s: nowS - 600 });
  expect(host.textContent).toContain('23 min left');
  act(() => root.unmount());
  root = createRoot(host);
  draw({ started_s: nowS - 6_000, state_since_s: nowS - 600 });
  expect(host.textContent).not.toContain('left');
});

test('10,000 tasks are drawn, and then 100 of them redrawn', () => {
  const states = ['COMPLETED', 'RUNNING', 'PENDING', 'FAILED'];
  const tasks = (from: number): Record<string, string> => {
    const found: Record<string, number[]> = {};
    for (let at = 0; at < 10_000; at++) {
      const turned = at >= 5_000 && at < 5_000 + from ? 1 : 0;
      (found[states[(at + turned) % 4] ?? ''] ??= []).push(at);
    }
    return Object.fromEntries(Object.entries(found).map(([state, all]) => [state, all.join(',')]));
  };
  const [first, second] = [tasks(0), tasks(100)];
  const began = performance.now();
  draw({ tasks: first });
  const drawn = performance.now();
  strokes = [];
  draw({ tasks: second });
  const updated = performance.now();
  expect(strokes.filter(one => one.startsWith('clear'))).toHaveLength(100);
  console.info(
    `10,000 tasks: drawn in ${Math.round(drawn - began)} ms, 100 changed in ${Math.round(updated - drawn)} ms`
  );
});
