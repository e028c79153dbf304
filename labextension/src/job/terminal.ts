// Text as a terminal shows it: progress lines that begin anew, colours, no other control sequences.
// Pure: strings in, strings and pieces out. Colours are named; what each looks like is job.css's.
/* eslint no-control-regex: 'off' -- control characters are what this is about */
import Anser from 'anser';

// What is not a colour (SGR) or belongs to none: titles and links (OSC), moves and erasures (CSI),
// other escapes, and control characters that show nothing (ECMA-48). Cut at the end: left as it is.
const SILENT = new RegExp(
  [
    '\\u001b\\][^\\u0007\\u001b\\n]*(?:\\u0007|\\u001b\\\\)',
    '\\u001b\\[[0-?]*[ -/]*[@-ln-~]',
    '\\u001b\\[[<-?][0-?]*m',
    '\\u001b[()][0-9A-Za-z]',
    '\\u001b[=>78DEHMNOZc]',
    '[\\u0000-\\u0007\\u000b-\\u000c\\u000e-\\u001a\\u001c-\\u001f\\u007f]'
  ].join('|'),
  'g'
);
const COLOUR = new RegExp('\\u001b\\[[\\d;:]*m', 'g');
/** The beginning of a sequence whose rest has not come yet. */
const CUT = new RegExp('\\u001b(?:\\[[0-?]*|\\][^\\u0007\\u001b\\n]*)?$');
const RESET = new RegExp('^\\u001b\\[(?:0*|0*;.*)m$');
/** Who never resets is not followed any further. */
const MOST_OPEN = 16;

/** A carriage return begins its line anew; one at the very end does so once more text comes. */
export function asTerminal(text: string): string {
  const seen = text.replace(SILENT, '');
  const whole = seen.includes('\u0008') ? withoutErased(seen) : seen;
  if (!whole.includes('\r')) {
    return whole;
  }
  const lines = whole.split('\n');
  return lines.map((line, at) => lastWritten(line, at === lines.length - 1)).join('\n');
}

/** Each backspace takes the character before it away, as far as its line goes back. */
function withoutErased(text: string): string {
  const kept: string[] = [];
  for (const character of text) {
    const last = kept.at(-1);
    if (character !== '\u0008') {
      kept.push(character);
    } else if (last !== undefined && last !== '\n' && last !== '\r') {
      kept.pop();
    }
  }
  return kept.join('');
}

function lastWritten(line: string, open: boolean): string {
  const end = line.search(/\r*$/);
  const body = line.slice(0, end);
  const shown = body.slice(body.lastIndexOf('\r') + 1);
  return open && end < line.length ? `${shown}\r` : shown;
}

/** The sequences of `text` that colour what follows it. */
export function openStyle(text: string): string {
  const open: string[] = [];
  for (const sequence of text.includes('\u001b') ? (text.match(COLOUR) ?? []) : []) {
    if (RESET.test(sequence)) {
      open.length = 0;
    }
    open.push(sequence);
  }
  return open.slice(-MOST_OPEN).join('');
}

/** Without colours. */
export function plain(text: string): string {
  return text.includes('\u001b') ? text.replace(CUT, '').replace(COLOUR, '') : text;
}

export interface Piece {
  text: string;
  /** Of JupyterLab's own kind: `ansi-red-fg ansi-bold`; '': none. */
  className: string;
  /** Of 256 and of true colours, as CSS has them; null: a named one, or none. */
  color: string | null;
  background: string | null;
}

/** `text`, begun with `style` in force, in pieces of one look each. */
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

/** `38:2::1:2:3`, the standard's own form, as most write it. */
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

/** xterm's: a cube of 6 x 6 x 6 from 16, then 24 greys. */
function palette(number: number): number[] {
  if (number >= 232) {
    return Array<number>(3).fill(8 + 10 * (number - 232));
  }
  const at = number - 16;
  return [Math.floor(at / 36), Math.floor(at / 6) % 6, at % 6].map(one =>
    one ? 55 + 40 * one : 0
  );
}
