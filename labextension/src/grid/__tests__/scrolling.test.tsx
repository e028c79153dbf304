import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { NOTHING } from '../choice';
import { Grid } from '../grid';

Object.assign(globalThis, {
  IS_REACT_ACT_ENVIRONMENT: true,
  ResizeObserver: class {
    observe = (): void => undefined;
    disconnect = (): void => undefined;
  }
});

let root: Root;
let host: HTMLElement;

beforeEach(() => {
  host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
});

afterEach(() => {
  act(() => root.unmount());
  host.remove();
});

function draw(keys: string, listing = ''): HTMLElement {
  const rows = Array.from(keys, key => ({ key }));
  const choose = (): void => undefined;
  act(() =>
    root.render(
      <Grid
        {...{ rows, listing, choose }}
        label="Letters"
        cells={({ key }) => <span>{key}</span>}
        choice={NOTHING}
      />
    )
  );
  return host.querySelector<HTMLElement>('.jp-slurm-Grid') ?? host;
}

function scroll(grid: HTMLElement, px: number): void {
  grid.scrollTop = px;
  act(() => void grid.dispatchEvent(new Event('scroll')));
}

test('the top row stays in place when rows are added, except in another listing', () => {
  const grid = draw('cdef');
  scroll(grid, 30);
  draw('abcdef');
  expect(grid.scrollTop).toBe(78);
  draw('cdef', 'another');
  expect(grid.scrollTop).toBe(0);
});

test('added rows are shown at the top, without laying out the page', () => {
  const grid = draw('cdef');
  scroll(grid, 30);
  scroll(grid, 0);
  const read = jest.spyOn(grid, 'scrollTop', 'get').mockReturnValue(0);
  draw('abcdef');
  expect(read).not.toHaveBeenCalled();
  expect(host.textContent).toContain('ab');
});
