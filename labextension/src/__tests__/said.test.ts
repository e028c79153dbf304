import { Gettext, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { said } from '../said';

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

test('a whole sentence is said in the language of the page', () => {
  expect(said('It is held by its owner.', portuguese)).toBe('Está retido pelo dono.');
  expect(said('It is held by its owner.', japanese)).toBe('所有者により保留されています。');
  expect(said('It is held by its owner.', english)).toBe('It is held by its owner.');
});

test.each([
  ['The partition gpu is closed for now.', 'A partição gpu está fechada por enquanto.'],
  ['The partition is closed for now.', 'A partição está fechada por enquanto.'],
  ['It waits for another job (afterok:12).', 'Espera por outro job (afterok:12).'],
  ['It waits for another job.', 'Espera por outro job.'],
  ['`scontrol release 12_3` lets it go.', '`scontrol release 12_3` o libera.'],
  ['It was cancelled by ana before it had started.', 'Foi cancelado por ana antes de começar.'],
  ['It has begun on n1 and 2 more.', 'Começou em n1 e em mais 2.']
])('with what varies in it: %s', (text, expected) => {
  expect(said(text, portuguese)).toBe(expected);
  expect(said(text, english)).toBe(text);
});

test('what is limited is translated too, a name of the same word is not', () => {
  expect(said('It asks for more memory than the QOS memory allows to one job.', portuguese)).toBe(
    'Pede mais do que a QOS memory permite a um job (memória).'
  );
  expect(said('It was cancelled by memory.', portuguese)).toBe('Foi cancelado por memory.');
});

test('a sentence within a sentence is translated with it', () => {
  expect(said('Its session ended while it ran. It ran into its time limit.', portuguese)).toBe(
    'A sessão terminou enquanto a célula executava. Atingiu o limite de tempo.'
  );
});

test.each(['$&', '$1', '%1', '%%', '[(.*', '\\', '%2 %1', '</b><script>'])(
  'a value stays as it is: %s',
  value => {
    expect(said(`It was cancelled by ${value}.`, portuguese)).toBe(`Foi cancelado por ${value}.`);
  }
);

test.each([
  '',
  'Our own words.',
  'It is held by its owner',
  'It was cancelled by\na b.',
  'constructor'
])('what is not known stays as it is: %j', text => {
  expect(said(text, portuguese)).toBe(text);
});

test('a text without an end is not searched', () => {
  const text = `The QOS${' may not be used by this account or in the partition'.repeat(10_000)}`;
  expect(said(text, portuguese)).toBe(text);
});
