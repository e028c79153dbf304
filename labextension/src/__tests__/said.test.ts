import { Gettext, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { said, told, toldBeside } from '../said';
import { phrases, sentences } from '../sentences';
import type { Problem } from '../wire';

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

test('no template has two values that adjoin: nobody could tell where one ends', () => {
  const texts = [...sentences, ...phrases];
  expect(texts.filter(text => /%\d%\d/.test(text))).toEqual([]);
});

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

test.each([
  [
    'gpu at 17:34:12: 1 of 1 nodes idle, 2 of 2 GPUs free.',
    'gpu às 17:34:12: 1 de 1 nós ociosos, 2 de 2 GPUs livres.'
  ],
  [
    'small (K40; for tests) at 2027-01-15 09:20: 1 of 2 nodes idle.',
    'small (K40; for tests) às 2027-01-15 09:20: 1 de 2 nós ociosos.'
  ],
  [
    '9 GPUs are more than debug has in all: 2. Ask for 2 or less.',
    '9 GPUs são mais do que debug tem no total: 2. Peça 2 ou menos.'
  ],
  [
    '--time 02:00:00 is more than small allows: 1 h (the profile says).',
    '--time 02:00:00 é mais do que small permite: 1 h (segundo o perfil).'
  ],
  [
    'Ask for --time 01:00:00 or less, or take long or gpu. If that is out of date, change it in /a b.toml.',
    'Peça --time 01:00:00 ou menos, ou use long ou gpu. Se isso estiver desatualizado, corrija em /a b.toml.'
  ],
  [
    'There is no QOS `norml` for you (the template says); did you mean `normal`?',
    'Não há QOS `norml` para você (segundo o modelo); você quis dizer `normal`?'
  ],
  ['There is no QOS `norml` for you.', 'Não há QOS `norml` para você.'],
  [
    'A job of your account `physics` can have 1.0 GiB of memory, not 2.0 GiB of memory.',
    'Com a sua conta `physics`, um job pode ter 1.0 GiB de memória, não 2.0 GiB de memória.'
  ],
  [
    'A job of the QOS `gpu` can have 1 GPU of the type a100, not 2 GPUs of the type a100.',
    'Com a QOS `gpu`, um job pode ter 1 GPU do tipo a100, não 2 GPUs do tipo a100.'
  ],
  [
    'Ask for less, or take another QOS or account. Else the job waits for ever.',
    'Peça menos, ou use outra QOS ou outra conta. Senão o job espera para sempre.'
  ],
  [
    'It will wait: the QOS `room` of small allows 8 CPUs in all, and you use 1 CPU.',
    'Vai esperar: a QOS `room` de small permite 8 CPUs no total, e você usa 1 CPU.'
  ],
  [
    'The QOS `gpu` lets 3 jobs of a user be in the queue, and you have 3.',
    'A QOS `gpu` permite 3 jobs por usuário na fila, e você tem 3.'
  ],
  ['The QOS `gpu` lets 1 job be in the queue.', 'A QOS `gpu` permite 1 job na fila.'],
  [
    'Maintenance (`upgrade`) keeps all 2 nodes of small from 9:00 to 10:00: on these a job of 3 h starts after it.',
    'Uma manutenção (`upgrade`) ocupa todos os 2 nós de small de 9:00 a 10:00: nesses, um job de 3 h só começa depois dela.'
  ],
  [
    'A reservation (`demo`) keeps 1 of the 2 nodes of small until 10:00.',
    'Uma reserva (`demo`) ocupa 1 dos 2 nós de small até 10:00.'
  ],
  [
    'Slurm would refuse it: Invalid qos specification',
    'O Slurm o recusaria: Invalid qos specification'
  ],
  [
    'The QOS does not exist, is not yours, or may not be used in this partition. Give another --qos. `sacctmgr show assoc user=$USER` lists what you may use.',
    'A QOS não existe, não é sua ou não pode ser usada nesta partição. Indique outra --qos. `sacctmgr show assoc user=$USER` lista o que você pode usar.'
  ],
  [
    "Slurm could not be asked: Slurm's controller on c does not answer `sbatch`.",
    'Não foi possível consultar o Slurm: O controlador do Slurm em c não responde a `sbatch`.'
  ]
])('before a job is sent: %s', (text, expected) => {
  expect(said(text, portuguese)).toBe(expected);
  expect(said(text, english)).toBe(text);
});

test("a job's warnings are said line by line, and a line that is not known stays as it is", () => {
  expect(said('The partition gpu is down. Jobs wait.\nOur own words.', portuguese)).toBe(
    'A partição gpu está fora do ar. Os jobs esperam.\nOur own words.'
  );
});

test('of two sentences both are known, or neither is touched', () => {
  const text = 'Ask for 2 or less. Our own words.';
  expect(said(text, portuguese)).toBe(text);
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

test('beside a button that logs in no other way to do that is told', () => {
  const needed: Problem = {
    code: 'login-needed',
    message: 'gate asks for an answer that only you can give.',
    hint: 'Log in: `%slurm login`.',
    detail: null,
    option: null,
    transient: true
  };
  expect(told(needed, english)).toBe(`${needed.message} ${needed.hint}`);
  expect(toldBeside(needed, english)).toBe(needed.message);
  const other = { ...needed, code: 'unreachable' };
  expect(toldBeside(other, english)).toBe(told(other, english));
});
