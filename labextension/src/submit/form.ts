// What a form says <-> the words of a `%%slurm` line, which is what the server understands. Pure.
import { split } from './words';

/** As they are typed; '' is "nothing said". */
export interface Wishes {
  cluster: string;
  partition: string;
  account: string;
  qos: string;
  gpus: string;
  gpuType: string;
  nodes: string;
  tasks: string;
  cpus: string;
  memory: string;
  time: string;
  image: string;
  folder: string;
  modules: string;
  /** NAME=VALUE, one a line. */
  env: string;
  name: string;
  /** Of a kernel: what launcher and picker call it. */
  title: string;
  array: string;
  /** Of a lab or a kernel: after how long without use it ends. */
  idle: string;
  /** Of a lab, 'yes': JupyterLab is installed where the image has none. */
  install: '' | 'yes';
  /** More of sbatch's options, as they are typed there. */
  more: string;
}

export type Field = keyof Wishes;

export const NO_WISHES: Wishes = {
  cluster: '',
  partition: '',
  account: '',
  qos: '',
  gpus: '',
  gpuType: '',
  nodes: '',
  tasks: '',
  cpus: '',
  memory: '',
  time: '',
  image: '',
  folder: '',
  modules: '',
  env: '',
  name: '',
  title: '',
  array: '',
  idle: '',
  install: '',
  more: ''
};

/** Those that are one option with one value, in the order of the line. */
const OPTIONS: readonly (readonly [string, Field])[] = [
  ['cluster', 'cluster'],
  ['partition', 'partition'],
  ['account', 'account'],
  ['qos', 'qos'],
  ['gpus', 'gpus'],
  ['nodes', 'nodes'],
  ['ntasks', 'tasks'],
  ['cpus-per-task', 'cpus'],
  ['mem', 'memory'],
  ['time', 'time'],
  ['image', 'image'],
  ['chdir', 'folder'],
  ['name', 'name'],
  ['display-name', 'title'],
  ['array', 'array'],
  ['idle', 'idle']
];
const FIELDS: ReadonlyMap<string, Field> = new Map<string, Field>([
  ...OPTIONS,
  ['module', 'modules'],
  ['env', 'env'],
  ['job-name', 'name']
]);
const SHORT: Readonly<Record<string, string>> = {
  '-p': 'partition',
  '-A': 'account',
  '-q': 'qos',
  '-G': 'gpus',
  '-N': 'nodes',
  '-n': 'ntasks',
  '-c': 'cpus-per-task',
  '-t': 'time',
  '-a': 'array',
  '-J': 'job-name',
  '-D': 'chdir'
};

/** What `{…}` of braces.py puts a value in place of: `job.id`, `rates[0]`, `rate:.2f`. */
const FIELD = String.raw`\{([\p{L}_][\p{L}\p{N}_]*(?:\.[\p{L}_][\p{L}\p{N}_]*|\[[^[\]{}]*\])*(?::[^{}]*)?)\}`;
const FIELDS_IN = new RegExp(FIELD, 'gu');
const DOUBLED = new RegExp(`\\{${FIELD}\\}`, 'gu');
const VARIABLE = new RegExp(`(^|[^{])${FIELD}($|[^}])`, 'u');

/** The words behind `%%slurm`. */
export function lineOf(wishes: Wishes): string {
  const words = OPTIONS.map(([option, field]) => [option, valueOf(wishes, field)] as const)
    .filter(([, value]) => value !== '')
    .map(([option, value]) => optionOf(option, value));
  const modules = wishes.modules
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(name => optionOf('module', name));
  const env = wishes.env
    .split('\n')
    .map(line => line.trim())
    .filter(Boolean)
    .map(line => optionOf('env', line));
  const install = wishes.install === 'yes' ? ['--install'] : [];
  const more = wishes.more.replace(/\s*\n\s*/g, ' ').trim();
  return [...words, ...modules, ...env, ...install, more].filter(Boolean).join(' ');
}

function valueOf(wishes: Wishes, field: Field): string {
  const value = wishes[field].replace(/\s*\n\s*/g, ' ').trim();
  if (field !== 'gpus') {
    return value;
  }
  const count = value === '0' ? '' : value;
  return count !== '' && wishes.gpuType !== '' ? `${wishes.gpuType}:${count}` : count;
}

/** `{name}` would be a variable of the notebook: doubled braces are these very characters. */
function optionOf(option: string, value: string): string {
  const said = value.replace(FIELDS_IN, '{{$1}}');
  return said.startsWith('-') ? `--${option}=${quoted(said)}` : `--${option} ${quoted(said)}`;
}

/** One word of a POSIX shell's. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'"'"'`)}'`;
}

/**
 * What the form says of a line that was typed. What has no field of its own, and what holds a
 * variable of the notebook, stays as it is in `more`; so does a line with a quote left open.
 */
export function wishesOf(line: string): Wishes {
  const wishes = { ...NO_WISHES };
  const words = split(line);
  if (words === null) {
    return { ...wishes, more: line.trim() };
  }
  const more: string[] = [];
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    const [, name, value] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    const option = SHORT[word] ?? name;
    const field = option === undefined ? undefined : FIELDS.get(option);
    const given = value ?? words[at + 1];
    if (field === undefined || given === undefined || !take(wishes, field, given)) {
      more.push(quoted(word));
      continue;
    }
    at += value === undefined ? 1 : 0;
  }
  return { ...wishes, more: more.join(' ') };
}

/** Whether the field can say it. */
function take(wishes: Wishes, field: Field, given: string): boolean {
  if (VARIABLE.test(given)) {
    return false;
  }
  const value = given.replace(DOUBLED, '{$1}');
  if (field === 'gpus') {
    const [, kind = '', count] = /^(?:([A-Za-z][^\s:,=]*)[:=])?([0-9]+)$/.exec(value) ?? [];
    if (count === undefined) {
      return false;
    }
    Object.assign(wishes, { gpus: count, gpuType: kind });
    return true;
  }
  const before = wishes[field];
  const apart = field === 'modules' ? ' ' : '\n';
  const many = field === 'modules' || field === 'env';
  if (field === 'install') {
    return false;
  }
  wishes[field] = many && before !== '' ? `${before}${apart}${value}` : value;
  return true;
}
