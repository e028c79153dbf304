import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { createRoot, type Root } from 'react-dom/client';
import { drawn } from '../../__tests__/drawn';
import { job } from '../../__tests__/fakes';
import type { Freshness, ISlurmModel, LogView } from '../../tokens';
import { SeenContext } from '../../watching';
import type { LogChunk, Output } from '../../wire';
import { LogPane } from '../log';
import { chunk, err, out } from './fakes';

/** A block of the log has 200 such lines. */
const LINE = `${'a'.repeat(75)}\n`;

class FakeLog implements LogView {
  readonly jobId = 'one';
  readonly chunk: Signal<LogView, LogChunk> = new Signal<LogView, LogChunk>(this);
  readonly changed: Signal<LogView, void> = new Signal<LogView, void>(this);
  readonly freshness: Freshness = { asOf: 1, problem: null };
  readonly ended = false;
  isDisposed = false;
  readonly wake = jest.fn();
  readonly rest = jest.fn();
  readonly dispose = jest.fn();
}

let root: Root;
let place: HTMLElement;
let log: FakeLog;
const open = jest.fn(() => log);
const model = { freshness: { asOf: 1, problem: null }, log: open } as unknown as ISlurmModel;
const props = {
  job: job(),
  model,
  commands: new CommandRegistry(),
  rendermime: {} as unknown as IRenderMimeRegistry,
  download: '',
  task: null,
  setTask: jest.fn()
};

beforeEach(async () => {
  Object.assign(globalThis, {
    IntersectionObserver: class {
      constructor(private readonly hear: (entries: object[]) => void) {}
      readonly observe = (target: Element): void => this.hear([{ target, isIntersecting: true }]);
      readonly unobserve = jest.fn();
      readonly disconnect = jest.fn();
    }
  });
  Element.prototype.scrollIntoView = jest.fn();
  jest.clearAllMocks();
  log = new FakeLog();
  place = document.body.appendChild(document.createElement('div'));
  root = createRoot(place);
  await show({ seen: true });
});

afterEach(async () => {
  await drawn(() => root.unmount());
  place.remove();
});

async function show({ seen }: { seen: boolean }): Promise<void> {
  await drawn(() =>
    root.render(
      <SeenContext.Provider value={seen}>
        <LogPane {...props} />
      </SeenContext.Provider>
    )
  );
}

/** Counts the elements of the log that change when the chunk comes. */
async function changedBy(...outputs: Output[]): Promise<number> {
  const blocks = new Set<Node>();
  const note = (records: MutationRecord[]): void => {
    for (const { target, addedNodes } of records) {
      for (const node of [target, ...addedNodes]) {
        const element = node instanceof Element ? node : node.parentElement;
        const block = element?.closest('.jp-slurm-LogBlock');
        if (block) {
          blocks.add(block);
        }
      }
    }
  };
  const observer = new MutationObserver(note);
  observer.observe(place, { characterData: true, childList: true, subtree: true });
  await drawn(() => log.chunk.emit(chunk(...outputs)));
  note(observer.takeRecords());
  observer.disconnect();
  return blocks.size;
}

test('a log that grows draws its last block and those that are new', async () => {
  expect(await changedBy(out(LINE.repeat(2_100)))).toBe(11);
  expect(await changedBy(out(LINE.repeat(50)))).toBe(1);
  expect(await changedBy(out(LINE.repeat(1_950)))).toBe(11);
  expect(await changedBy(err(LINE))).toBe(1);
});

test('an endless log has a bounded number of elements', async () => {
  for (let at = 0; at < 6; at += 1) {
    await changedBy(out('a\n'.repeat(100_000)));
  }
  const count = place.querySelectorAll('*').length;
  expect(count).toBeGreaterThan(2_000);
  expect(count).toBeLessThan(4_100);
});

test('a hidden log rests, and goes on where it was when it is shown', async () => {
  await changedBy(out('one\n'));
  expect(log.rest).not.toHaveBeenCalled();
  await show({ seen: false });
  expect(log.rest).toHaveBeenCalledTimes(1);
  log.wake.mockClear();
  await show({ seen: true });
  expect([log.wake.mock.calls.length, open.mock.calls.length]).toEqual([1, 1]);
  await changedBy(out('two\n'));
  expect(place.querySelector('[role=log]')?.textContent).toBe('one\ntwo\n');
});

describe('the times of lines', () => {
  const times = (): string[] =>
    [...place.querySelectorAll<HTMLElement>('.jp-slurm-LogLine')].map(
      one => `${one.dataset.time ?? ''}|${one.textContent}`
    );

  const marked = (): string[] =>
    [...place.querySelectorAll('mark')].map(
      one =>
        `${one.textContent} in ${one.closest('.jp-slurm-LogLine')?.textContent?.trimEnd() ?? ''}`
    );

  async function find(text: string): Promise<void> {
    const field = place.querySelector('input[type=text]');
    await drawn(() => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(field, text);
      field?.dispatchEvent(new Event('input', { bubbles: true }));
    });
  }

  function box(): HTMLInputElement {
    const labels = [...place.querySelectorAll('label')];
    const found = labels.find(one => one.textContent?.trim() === 'Times')?.control;
    if (!(found instanceof HTMLInputElement)) {
      throw new Error('there is no box for times');
    }
    return found;
  }

  test('are shown when they are wanted, beside the text and not in it', async () => {
    const atS = new Date(new Date().setHours(9, 5, 7)).getTime() / 1000;
    await changedBy(out('old\n\u001b[31mred\n'));
    expect(box().disabled).toBe(true);
    await changedBy(out('new\n', atS), out('\nopen', atS + 61));
    expect([box().disabled, box().checked, times()]).toEqual([false, false, []]);
    const before = place.querySelectorAll('[role=log] *').length;
    await drawn(() => box().click());
    expect(times()).toEqual(['|old\n', '|red\n', '09:05:07|new\n', '09:06:08|\n', '09:06:08|open']);
    expect(place.querySelector('[role=log]')?.textContent).toBe('old\nred\nnew\n\nopen');
    expect(place.querySelectorAll('.ansi-red-fg')).toHaveLength(4);
    await find('09:05');
    expect(marked()).toEqual([]);
    await find('E');
    expect(marked()).toEqual(['e in red', 'e in new', 'e in open']);
    await find('');
    await drawn(() => box().click());
    expect(place.querySelectorAll('[role=log] *')).toHaveLength(before);
  });
});
