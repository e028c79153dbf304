import { act, useRef, type JSX } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { useFollowing } from '../follow';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

const [WIDTH, BAR, HEIGHT] = [400, 15, 100];
let root: Root;
let host: HTMLElement;
let resized: () => void;
/** The height of the content, since jsdom has no layout. */
let long: number;

/** Stand-in for the browser's observer. It reports a size when the test requests it. */
class FakeResizeObserver {
  constructor(hear: () => void) {
    resized = hear;
  }
  readonly observe = jest.fn();
  readonly disconnect = jest.fn();
}

function Box(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const { follow, scrolled } = useFollowing(box, content);
  return (
    <div ref={box} role="log" data-follow={follow} onScroll={scrolled}>
      <div ref={content} />
    </div>
  );
}

function box(): HTMLElement {
  const found = host.querySelector<HTMLElement>('[role=log]');
  if (found === null) {
    throw new Error('Log not found.');
  }
  return found;
}

/** Give a box the layout of a browser, with a scrollbar. */
function laidOut(element: HTMLElement): void {
  let top = 0;
  const most = (): number => Math.max(0, long - HEIGHT);
  Object.defineProperties(element, {
    scrollHeight: { get: () => long },
    clientHeight: { value: HEIGHT },
    clientWidth: { value: WIDTH },
    scrollTop: {
      get: () => Math.min(top, most()),
      set: (wanted: number) => {
        top = Math.max(0, Math.min(wanted, most()));
      }
    }
  });
}

beforeEach(() => {
  Object.assign(globalThis, { ResizeObserver: FakeResizeObserver });
  long = 1000;
  host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
  act(() => root.render(<Box />));
  laidOut(box());
  resized();
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
});

function point(type: string, [x, y]: [number, number], more: MouseEventInit = {}): void {
  const where = { clientX: x, clientY: y, bubbles: true };
  box().dispatchEvent(new MouseEvent(type, { ...where, ...more }));
}

function scrolledTo(top: number): void {
  act(() => {
    box().scrollTop = top;
    box().dispatchEvent(new Event('scroll'));
  });
}

/** Report that the content is measured again, first shorter, then longer. */
function measuredAnew(): void {
  scrolledTo(box().scrollTop - 300);
}

function follows(): boolean {
  return box().dataset.follow === 'true';
}

test('a log is still followed after a click and a new layout', () => {
  measuredAnew();
  expect([follows(), box().scrollTop]).toEqual([true, 900]);
  point('pointerdown', [50, 50], { buttons: 1 });
  measuredAnew();
  // Chromium reports a resting pointer whenever other content moves under it.
  point('pointermove', [50, 50], { buttons: 1 });
  measuredAnew();
  point('pointerup', [51, 50]);
  measuredAnew();
  expect([follows(), box().scrollTop]).toEqual([true, 900]);
});

test.each<[string, () => void]>([
  ['the wheel', () => box().dispatchEvent(new WheelEvent('wheel', { deltaY: -100 }))],
  ['a key', () => box().dispatchEvent(new KeyboardEvent('keydown', { key: 'PageUp' }))],
  ['the scrollbar', () => point('pointerdown', [WIDTH + BAR / 2, 20], { buttons: 1 })],
  [
    'a selection up to the upper edge',
    () => {
      point('pointerdown', [50, 50], { buttons: 1 });
      point('pointermove', [50, 1], { buttons: 1 });
    }
  ]
])('scrolling up by %s stops following', (_, does) => {
  does();
  scrolledTo(600);
  expect([follows(), box().scrollTop]).toEqual([false, 600]);
  long = 2000;
  resized();
  expect(box().scrollTop).toBe(600);
});
