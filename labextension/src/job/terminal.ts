// Text as a terminal shows it: rewritten progress lines, colours, and no other control sequences.
// No I/O.
/* eslint no-control-regex: 'off' -- this file is about control characters */

// Sequences other than colours: titles and links (OSC), moves and erasures (CSI), other escapes,
// and invisible control characters (ECMA-48). An incomplete sequence at the end is kept.
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
export const COLOUR = new RegExp('\\u001b\\[[\\d;:]*m', 'g');
/** The start of an incomplete sequence. */
export const CUT = new RegExp('\\u001b(?:\\[[0-?]*|\\][^\\u0007\\u001b\\n]*)?$');
const RESET = new RegExp('^\\u001b\\[(?:0*|0*;.*)m$');
/** Maximum number of colours in force. */
const MOST_OPEN = 16;

/**
 * Apply carriage returns, which restart their line. A carriage return at the end applies only when
 * more text arrives.
 */
export function asTerminal(text: string): string {
  const seen = text.replace(SILENT, '');
  const whole = seen.includes('\u0008') ? withoutErased(seen) : seen;
  if (!whole.includes('\r')) {
    return whole;
  }
  const lines = whole.split('\n');
  return lines.map((line, at) => lastWritten(line, at === lines.length - 1)).join('\n');
}

/** Apply backspaces, which remove the character before them in their line. */
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

/** Return the colours in force after `text`. */
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

/** Return the text without colours. */
export function plain(text: string): string {
  return text.includes('\u001b') ? text.replace(CUT, '').replace(COLOUR, '') : text;
}
