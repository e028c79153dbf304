import { Gettext, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import * as messages from '../messages';
import type { Message, Problem } from '../wire';
import { inLanguage } from './fakes';

interface Tool {
  PLURALS: Record<string, string>;
  catalogue(locale: string): Record<string, string[]>;
}

const tool = jest.requireActual<Tool>('../../translations.cjs');

/** As JupyterLab reads a catalogue. */
function translatorOf(locale: string): TranslationBundle {
  const gettext = new Gettext({ locale, domain: 'jupyter_slurm' });
  const header = { domain: 'jupyter_slurm', language: locale.replace('_', '-') };
  const texts = { ...tool.catalogue(locale), '': { ...header, pluralForms: tool.PLURALS[locale] } };
  gettext.loadJSON(texts as unknown as Parameters<Gettext['loadJSON']>[0], 'jupyter_slurm');
  return gettext;
}

const english = nullTranslator.load('jupyter_slurm');
const portuguese = translatorOf('pt_BR');
const japanese = translatorOf('ja_JP');

const said = (text: messages.Text, bundle: TranslationBundle): string =>
  inLanguage(bundle, () => messages.said(text));
const told = (problem: Problem, bundle: TranslationBundle): string =>
  inLanguage(bundle, () => messages.told(problem));
const toldBeside = (problem: Problem, bundle: TranslationBundle): string =>
  inLanguage(bundle, () => messages.toldBeside(problem));

function message(text: string, args: Message['args'] = {}): Message {
  return { text, args };
}

test('a whole sentence is said in the language of the page', () => {
  expect(said('On hold (by you).', portuguese)).toBe('Retido (por você).');
  expect(said('On hold (by you).', japanese)).toBe('保留中（自分による）。');
  expect(said('On hold (by you).', english)).toBe('On hold (by you).');
});

test.each<[Message, string, string]>([
  [
    message('The partition{partition} is closed for now.', { partition: ' gpu' }),
    'The partition gpu is closed for now.',
    'A partição gpu está fechada por enquanto.'
  ],
  [
    message('The partition{partition} is closed for now.', { partition: '' }),
    'The partition is closed for now.',
    'A partição está fechada por enquanto.'
  ],
  [
    message('`scontrol release {job}` lets it go.', { job: '12_3' }),
    '`scontrol release 12_3` lets it go.',
    '`scontrol release 12_3` o libera.'
  ],
  [
    message('Started on {first} and {others} more.', { first: 'n1', others: '2' }),
    'Started on n1 and 2 more.',
    'Iniciado em n1 e mais 2.'
  ]
])('with what varies in it: %j', (one, inEnglish, inPortuguese) => {
  expect(said(one, english)).toBe(inEnglish);
  expect(said(one, portuguese)).toBe(inPortuguese);
});

test('no blank stands after a Japanese full stop', () => {
  const held = 'On hold (by you).';
  const problem = { code: 'x', message: held, hint: held, detail: null, option: null };
  const twice = '保留中（自分による）。保留中（自分による）。';
  expect(told({ ...problem, transient: false }, japanese)).toBe(twice);
  const both = message('{0} {1}', { 0: message(held), 1: message(held) });
  expect(said(both, japanese)).toBe(twice);
});

test('a message within a message is translated with it', () => {
  const within = message('A job of {name} can have {can}, not {asked}.', {
    name: message('the QOS `{name}`', { name: 'gpu' }),
    can: message('1 GPU of the type {kind}', { kind: 'a100' }),
    asked: message('{count} GPUs of the type {kind}', { count: '2', kind: 'a100' })
  });
  expect(said(within, english)).toBe(
    'A job of the QOS `gpu` can have 1 GPU of the type a100, not 2 GPUs of the type a100.'
  );
  expect(said(within, portuguese)).toBe(
    'Com a QOS `gpu`, um job pode ter 1 GPU do tipo a100, não 2 GPUs do tipo a100.'
  );
});

test("of several sentences each is translated by itself, and others' words stay", () => {
  const several = message('{1} {2}\n{3}', {
    '1': message('Its session ended while it ran.'),
    '2': message('Time limit reached.'),
    '3': message('Our own words.')
  });
  expect(said(several, portuguese)).toBe(
    'A sessão terminou enquanto a célula executava. Limite de tempo atingido.\nOur own words.'
  );
});

test('a name that is a word of ours is not translated', () => {
  const by = message('Cancelled by {by}.', { by: 'memory' });
  expect(said(by, portuguese)).toBe('Cancelado por memory.');
});

test.each(['$&', '$1', '%1', '%%', '{by}', '[(.*', '\\', '</b><script>'])(
  'a value stays as it is: %s',
  by => {
    const one = message('Cancelled by {by}.', { by });
    expect(said(one, portuguese)).toBe(`Cancelado por ${by}.`);
  }
);

test.each(['', 'Our own words.', 'On hold (by you)', 'constructor', '50 %1', 'a 100%%'])(
  'what no catalogue has stays as it is: %j',
  text => {
    expect(said(text, portuguese)).toBe(text);
    expect(said(message(text), portuguese)).toBe(text);
  }
);

test('beside a button that logs in no other way to do that is told', () => {
  const needed: Problem = {
    code: 'login-needed',
    message: 'gate asks for an answer that only you can give.',
    hint: message('Log in: `{slurm} login`.'),
    detail: null,
    option: null,
    transient: true
  };
  expect(told(needed, english)).toBe(
    'gate asks for an answer that only you can give. Log in: `jupyter slurm login`.'
  );
  expect(toldBeside(needed, english)).toBe(needed.message);
  const other = { ...needed, code: 'unreachable' };
  expect(toldBeside(other, english)).toBe(told(other, english));
});
