// Conversion of text with terminal colours into pieces of one style each. No I/O.
import Anser from 'anser';
import { COLOUR, CUT } from './terminal';

export interface Piece {
  text: string;
  /** JupyterLab's classes, like `ansi-red-fg ansi-bold`; '' for plain text. */
  className: string;
  /** A colour of 256 or true colours as CSS; null for other text. */
  color: string | null;
  background: string | null;
}

/** Split `text`, which starts with `style`, into pieces of one style. */
export function pieces(style: string, text: string): Piece[] {
  const whole = style + text.replace(CUT, '');
  if (!whole.includes('\u001b')) {
    return [{ text: whole, className: '', color: null, background: null }];
  }
  const parts = Anser.ansiToJson(whole.replace(COLOUR, withSemicolons), {
    json: true,
    remove_empty: true,
    use_classes: true
  });
  return parts.map(part => ({
    text: part.content,
    className: [
      named(part.fg, 'fg'),
      named(part.bg, 'bg'),
      ...part.decorations.map(one => `ansi-${one}`)
    ]
      .filter(one => one !== '')
      .join(' '),
    color: rgb(part.fg, part.fg_truecolor),
    background: rgb(part.bg, part.bg_truecolor)
  }));
}

/** Convert the standard's `38:2::1:2:3` to the common form. */
function withSemicolons(sequence: string): string {
  return sequence.replace('::', ':').replace(/:/g, ';');
}

const NUMBERED = /^ansi-palette-(\d+)$/;

function named(name: string | null, ground: 'fg' | 'bg'): string {
  if (!name || name === 'ansi-truecolor' || NUMBERED.test(name)) {
    return '';
  }
  const bright = /^ansi-bright-(.*)$/.exec(name);
  return bright?.[1] === undefined ? `${name}-${ground}` : `ansi-${bright[1]}-intense-${ground}`;
}

function rgb(name: string | null, trueColour: string | null): string | null {
  const found = name === null ? null : NUMBERED.exec(name);
  if (found?.[1] !== undefined) {
    return `rgb(${palette(Number(found[1])).join(', ')})`;
  }
  return name === 'ansi-truecolor' && trueColour !== null ? `rgb(${trueColour})` : null;
}

/** Return a colour of xterm's palette: a cube of 6 x 6 x 6 starting at 16, then 24 greys. */
function palette(number: number): number[] {
  if (number >= 232) {
    return Array<number>(3).fill(8 + 10 * (number - 232));
  }
  const at = number - 16;
  return [Math.floor(at / 36), Math.floor(at / 6) % 6, at % 6].map(one =>
    one ? 55 + 40 * one : 0
  );
}
