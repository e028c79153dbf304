// A cell's text: whether `%%slurm` stands on top of it, and how it looks with another line. Pure.

const HEAD = /^\s*%%slurm(?:[ \t]+([^\n]*))?(?:\n|$)/;

interface CellText {
  /** The words behind `%%slurm`; null: it has none. */
  line: string | null;
  /** What is below. */
  body: string;
}

export function cellText(source: string): CellText {
  const found = HEAD.exec(source);
  return found === null
    ? { line: null, body: source }
    : { line: (found[1] ?? '').trim(), body: source.slice(found[0].length) };
}

/** Whether there is something in it that a job can run; what else has a magic of ours is none. */
export function isRunnable(source: string): boolean {
  return !/^\s*%%slurm_/.test(source) && cellText(source).body.trim() !== '';
}

/** Tells whether no field of the form can hold the line's option: `--mem-per-cpu`, `--mem {m}`. */
export function saysOtherwise(line: string, option: string): boolean {
  return new RegExp(`--${option}(?!(?:=|\\s+)[^\\s{'"]+(?:\\s|$))`).test(line);
}

export function withLine(line: string, body: string): string {
  return `%%slurm ${line}`.trimEnd() + `\n${body}`;
}

/** Whether this cell makes `%%slurm` known to the kernel. */
export function loadsSlurm(source: string): boolean {
  return /^\s*%(?:load_ext|reload_ext)\s+jupyter_slurm\b/m.test(source);
}

export const LOAD = '%load_ext jupyter_slurm';
