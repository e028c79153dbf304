import { cellText, withLine } from '../cell';
import { lineOf, magicFor, NO_WISHES, type Wishes, wishesOf } from '../form';
import { quoted, split } from '../words';

const of = (wishes: Partial<Wishes>): string => lineOf({ ...NO_WISHES, ...wishes });

test.each([
  ["a 'b c' d", ['a', 'b c', 'd']],
  ['a\\ b "c \\" \\d"', ['a b', 'c " \\d']],
  ["''", ['']],
  ['x=\'1 2\'"3"', ['x=1 23']],
  ['  ', []],
  ["a 'b", null],
  ['a\\', null]
])('%s is split into the words %j', (line, words) => expect(split(line)).toEqual(words));

test.each(["it's", 'a b', '$HOME', '', 'é🐍', '"', 'a\\b', 'ok-1.2'])(
  'the word %j stays one word',
  word => expect(split(quoted(word))).toEqual([word])
);

test('the line contains all options, in a fixed order', () => {
  expect(of({})).toBe('');
  expect(of({ gpus: '0', gpuType: 'a100' })).toBe('');
  expect(
    of({
      cluster: 'here',
      gpus: '2',
      gpuType: 'a100',
      mem: ' 8G ',
      module: 'gcc/12, cuda',
      env: "A=1\n\n B=it's ",
      more: '--exclusive\n -C a100'
    })
  ).toBe(
    `--cluster here --gpus a100:2 --mem 8G --module gcc/12 --module cuda --env A=1 --env 'B=it'"'"'s' --exclusive -C a100`
  );
});

test('a value that looks like an option or a variable is escaped', () => {
  expect(of({ partition: '--hold' })).toBe('--partition=--hold');
  expect(of({ env: 'X={name}' })).toBe("--env 'X={{name}}'");
  expect(of({ env: 'X={a.b[0]:.2f}' })).toBe("--env 'X={{a.b[0]:.2f}}'");
});

test.each([
  '--cluster here --partition gpu --gpus a100:2 --time 30m',
  `--image 'a b' --module gcc --module cuda --env A=1 --env 'B=x y' --exclusive`,
  "--env 'X={{name}}'",
  "--image x.sif --chdir '~/a b'",
  '--nodes 2-4 --array 1-10%2 --constraint a100'
])('%s is parsed and formatted unchanged', line => expect(lineOf(wishesOf(line))).toBe(line));

test('short options are parsed, and options without a field stay text', () => {
  expect(wishesOf('-p gpu -t 5 -H --in data --time={minutes} --gpus a:1,b:2')).toEqual({
    ...NO_WISHES,
    partition: 'gpu',
    time: '5',
    more: "-H --in data '--time={minutes}' --gpus a:1,b:2"
  });
  expect(wishesOf("--name 'x").more).toBe("--name 'x");
});

test('a cell is split into its magic line and its body', () => {
  expect(cellText('print(1)\n')).toEqual({ line: null, body: 'print(1)\n' });
  expect(cellText('\n%%slurm --gpus 1\nprint(1)')).toEqual({ line: '--gpus 1', body: 'print(1)' });
  expect(cellText('%%slurm')).toEqual({ line: '', body: '' });
  expect(cellText('%%slurm_script x\n')).toEqual({ line: null, body: '%%slurm_script x\n' });
  expect(withLine('', 'x')).toBe('%%slurm\nx');
  expect(withLine('--gpus 1', '%%bash\nx')).toBe('%%slurm --gpus 1\n%%bash\nx');
  const array = { ...NO_WISHES, array: '1-3' };
  expect(magicFor('#!/bin/sh\n#SBATCH --time=5\n', NO_WISHES)).toBe('%%sbatch');
  expect(magicFor('#!/bin/sh\necho "#SBATCH"', NO_WISHES)).toBe('%%slurm');
  expect(magicFor('#!/bin/sh\n', array)).toBe('%%sbatch');
  expect(magicFor('#SBATCH', array)).toBe('%%slurm');
});
