// Conversion between the fields of a form and the arguments of a `%%slurm` line. No I/O.
import { OPTIONS } from './options';
import { quoted, split } from './words';

export type Option = (typeof OPTIONS)[number];

/** The name of a field: an option, the type of the GPUs, or other options of sbatch as typed. */
export type Field = Option['name'] | 'gpuType' | 'more';

/** The fields as typed; '' if a field is not set. `env` has one variable per line. */
export type Wishes = Readonly<Record<Field, string>>;

const NAMES = OPTIONS.map(one => one.name);

export const NO_WISHES = Object.fromEntries(
  [...NAMES, 'gpuType', 'more'].map(name => [name, ''])
) as Wishes;

/** Return the saved fields that still exist. */
export function wishesIn(kept: unknown): Wishes {
  const said = Object.entries(Object(kept) as object).filter(
    ([key, value]) => key in NO_WISHES && typeof value === 'string'
  );
  return { ...NO_WISHES, ...(Object.fromEntries(said) as Partial<Wishes>) };
}

/** Separators of fields with several values. In a line, each value is an option. */
const BETWEEN: Partial<Record<Field, readonly [string, RegExp]>> = {
  module: [' ', /[\s,]+/],
  env: ['\n', /\n/]
};

/** Return the field with that option; null if the form lacks it. */
export function optionOf(word: string): Option | null {
  return OPTIONS.find(one => (one.words as readonly string[]).includes(word)) ?? null;
}

/** A field in braces that parsing.py replaces: `job.id`, `rates[0]`, `rate:.2f`. */
const FIELD = String.raw`\{([\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*|\[[^[\]{}]*\])*(?::[^{}]*)?)\}`;
const FIELDS_IN = new RegExp(FIELD, 'gu');
const DOUBLED = new RegExp(`\\{${FIELD}\\}`, 'gu');
const VARIABLE = new RegExp(`(^|[^{])${FIELD}($|[^}])`, 'u');

/**
 * Return the magic for a text. sbatch receives a script with its options, or an array, as written.
 */
export function magicFor(code: string, wishes: Wishes): string {
  const isForSbatch = /^#SBATCH/m.test(code) || wishes.array !== '';
  return isScript(code) && isForSbatch ? '%%sbatch' : '%%slurm';
}

/** Return whether the text is a script. Otherwise it is Python. */
export function isScript(code: string): boolean {
  return code.startsWith('#!');
}

/** Return the arguments after `%%slurm`. */
export function lineOf(wishes: Wishes): string {
  const words = OPTIONS.flatMap(({ name }) => {
    const between = BETWEEN[name]?.[1];
    const values = between ? wishes[name].split(between) : [valueOf(wishes, name)];
    return values
      .map(value => value.trim())
      .filter(Boolean)
      .map(value => said(name, value));
  });
  const more = wishes.more.replace(/\s*\n\s*/g, ' ').trim();
  return [...words, more].filter(Boolean).join(' ');
}

function valueOf(wishes: Wishes, field: Field): string {
  const value = wishes[field].replace(/\s*\n\s*/g, ' ').trim();
  if (field !== 'gpus') {
    return value;
  }
  const count = value === '0' ? '' : value;
  return count !== '' && wishes.gpuType !== '' ? `${wishes.gpuType}:${count}` : count;
}

/** Double the braces of `{name}`, which would otherwise be a variable of the notebook. */
export function said(option: string, value: string): string {
  const word = value.replace(FIELDS_IN, '{{$1}}');
  return word.startsWith('-') ? `--${option}=${quoted(word)}` : `--${option} ${quoted(word)}`;
}

/** Parse a typed line. Options without a field and values with variables stay in `more`. */
export function wishesOf(line: string): Wishes {
  const wishes = { ...NO_WISHES };
  const words = split(line);
  if (words === null) {
    return { ...wishes, more: line.trim() };
  }
  const more: string[] = [];
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    const [, name = word, value] = /^(--[a-z-]+)=(.*)$/s.exec(word) ?? [];
    const option = optionOf(name);
    const given = value ?? words[at + 1];
    if (option === null || given === undefined || !take(wishes, option, given)) {
      more.push(quoted(word));
      continue;
    }
    at += value === undefined ? 1 : 0;
  }
  return { ...wishes, more: more.join(' ') };
}

/** Set the field; return false if it cannot hold the value. */
function take(wishes: Record<Field, string>, { name }: Option, given: string): boolean {
  if (VARIABLE.test(given)) {
    return false;
  }
  const value = given.replace(DOUBLED, '{$1}');
  if (name === 'gpus') {
    const [, kind = '', count] = /^(?:([A-Za-z][^\s:,=]*)[:=])?([0-9]+)$/.exec(value) ?? [];
    if (count === undefined) {
      return false;
    }
    Object.assign(wishes, { gpus: count, gpuType: kind });
    return true;
  }
  const [between] = BETWEEN[name] ?? [];
  const before = wishes[name];
  wishes[name] = between !== undefined && before !== '' ? `${before}${between}${value}` : value;
  return true;
}

/** Drop the values of variables, which may be secret. */
export function keepable(wishes: Wishes): Wishes {
  const env = wishes.env.replace(/=.*$/gm, '');
  const words = split(wishes.more) ?? [];
  const isEnv = (word: string, at: number): boolean =>
    word.startsWith('--env=') || words[at - 1] === '--env';
  const more = words.some(isEnv)
    ? words.map((word, at) =>
        quoted(isEnv(word, at) ? word.replace(/^((?:--env=)?[^=]*)=.*$/s, '$1') : word)
      )
    : [wishes.more];
  return { ...wishes, env, more: more.join(' ') };
}
