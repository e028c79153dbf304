// The text of a cell, with and without its `%%slurm` line. No I/O.

const HEAD = /^\s*%%slurm(?:[ \t]+([^\n]*))?(?:\n|$)/;

interface CellText {
  /** The arguments after `%%slurm`; null without this line. */
  line: string | null;
  /** The text below this line. */
  body: string;
}

export function cellText(source: string): CellText {
  const found = HEAD.exec(source);
  return found === null
    ? { line: null, body: source }
    : { line: (found[1] ?? '').trim(), body: source.slice(found[0].length) };
}

/** Return whether a job can run the cell: it is not empty, and has no other magic of ours. */
export function isRunnable(source: string): boolean {
  return !/^\s*%%slurm_/.test(source) && cellText(source).body.trim() !== '';
}

/**
 * Return whether the line sets the option in a way that no field of the form can show, such as
 * `--mem-per-cpu` or `--mem {m}`.
 */
export function saysOtherwise(line: string, option: string): boolean {
  return new RegExp(`--${option}(?!(?:=|\\s+)[^\\s{'"]+(?:\\s|$))`).test(line);
}

export function withLine(line: string, body: string): string {
  return `%%slurm ${line}`.trimEnd() + `\n${body}`;
}

/** Return whether the cell loads the extension. */
export function loadsSlurm(source: string): boolean {
  return /^\s*%(?:load_ext|reload_ext)\s+jupyter_slurm\b/m.test(source);
}

export const LOAD = '%load_ext jupyter_slurm';
