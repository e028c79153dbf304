// Drawing of cells on a canvas, and later of changed cells only. A state has a colour and a shape:
// a filled cell, a dot or an outline. Large cells show the state's icon.
import { tone, type Tone } from '../format';
import { changesOf, type Cells } from '../tasks';
import { cornerOf, type Layout } from './cells';
import { PATHS } from './icons';

/** The theme's variables, as in style/signs.css. */
const COLOURS: Record<Tone | 'ground', string> = {
  running: '--jp-info-color1',
  done: '--jp-success-color1',
  failed: '--jp-error-color1',
  waiting: '--jp-warn-color1',
  unknown: '--jp-warn-color1',
  ended: '--jp-ui-font-color2',
  ground: '--jp-layout-color1'
};

/** The smallest cell with room for an icon. */
const SIGNED_PX = 12;
/** The side of the icons' viewBox. */
const SIGN_BOX = 24;
/** Maximum height of a canvas. Some browsers draw nothing on a higher canvas. */
const HIGHEST_PX = 16_000;

type Colours = Record<Tone | 'ground', string>;

interface Drawn {
  cells: Cells;
  layout: Layout;
  colours: Colours;
  ratio: number;
}

export class Painter {
  private drawn: Drawn | null = null;
  private readonly signs = new Map<Tone, Path2D>();

  constructor(private readonly canvas: HTMLCanvasElement) {}

  /** Draw the cells, or only the changed ones. */
  paint(cells: Cells, layout: Layout): void {
    const context = this.canvas.getContext('2d');
    if (context === null) {
      return;
    }
    const now = { cells, layout, colours: coloursOf(this.canvas), ratio: ratioOf(layout) };
    const before = this.drawn;
    const changed =
      before !== null && isSameLook(before, now) ? changesOf(before.cells, cells) : null;
    this.drawn = now;
    if (changed === null) {
      this.canvas.width = Math.round(layout.columns * layout.pitch * now.ratio);
      this.canvas.height = Math.round(layout.rows * layout.pitch * now.ratio);
    }
    context.setTransform(now.ratio, 0, 0, now.ratio, 0, 0);
    const places = changed ?? cells.states.keys();
    for (const place of places) {
      const { x, y } = cornerOf(layout, place);
      if (changed !== null) {
        context.clearRect(x, y, layout.pitch, layout.pitch);
      }
      this.paintCell(context, tone(cells.states[place] ?? ''), x, y, now);
    }
  }

  private paintCell(
    context: CanvasRenderingContext2D,
    state: Tone,
    x: number,
    y: number,
    { layout: { pitch }, colours }: Drawn
  ): void {
    const size = pitch - (pitch < 8 ? 1 : 2);
    const isFull = state === 'running' || state === 'done' || state === 'failed';
    const isSigned = size >= SIGNED_PX;
    context.fillStyle = colours[state];
    if (isFull) {
      // A failed task must be visible among many, so it also fills the gap.
      const side = state === 'failed' && !isSigned ? pitch : size;
      context.fillRect(x, y, side, side);
    } else if (!isSigned && state === 'waiting') {
      const side = Math.max(1, Math.floor(size / 3));
      const edge = (size - side) / 2;
      context.fillRect(x + edge, y + edge, side, side);
    } else if (!isSigned) {
      context.strokeStyle = colours[state];
      context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    }
    if (isSigned) {
      context.save();
      context.translate(x + size * 0.1, y + size * 0.1);
      context.scale((size * 0.8) / SIGN_BOX, (size * 0.8) / SIGN_BOX);
      context.fillStyle = isFull ? colours.ground : colours[state];
      context.fill(this.signOf(state));
      context.restore();
    }
  }

  private signOf(state: Tone): Path2D {
    const sign = this.signs.get(state) ?? new Path2D(PATHS[state]);
    this.signs.set(state, sign);
    return sign;
  }
}

function isSameLook(before: Drawn, now: Drawn): boolean {
  const { pitch, columns, count } = before.layout;
  return (
    pitch === now.layout.pitch &&
    columns === now.layout.columns &&
    count === now.layout.count &&
    before.ratio === now.ratio &&
    JSON.stringify(before.colours) === JSON.stringify(now.colours)
  );
}

function ratioOf({ rows, pitch }: Layout): number {
  return Math.min(window.devicePixelRatio || 1, HIGHEST_PX / Math.max(1, rows * pitch));
}

function coloursOf(canvas: HTMLCanvasElement): Colours {
  const style = getComputedStyle(canvas);
  const found = Object.entries(COLOURS).map(([name, variable]) => [
    name,
    style.getPropertyValue(variable).trim()
  ]);
  return Object.fromEntries(found) as Colours;
}
