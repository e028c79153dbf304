import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { NO_WISHES } from '../form';
import { kept, readKept } from '../restoring';
import type { Source } from '../source';

const cell: Source = {
  kind: 'cell',
  notebook: 'a.ipynb',
  cell: 'c',
  body: () => 'y',
  run: () => Promise.resolve({ job: Promise.resolve(null) })
};

test.each([
  [{ kind: 'lab' }, { kind: 'lab' }],
  [
    { kind: 'file', path: 'a b.py' },
    { kind: 'file', path: 'a b.py' }
  ],
  [
    { kind: 'code', code: 'as it began' },
    { kind: 'code', code: 'as it is' }
  ],
  [cell, { kind: 'cell', notebook: 'a.ipynb', cell: 'c' }]
] as [Source, object][])('a form of %o is restored with its input', (source, subject) => {
  const wishes = { ...NO_WISHES, cluster: 'far', time: '2h' };
  const text = JSON.stringify(kept('n', source, wishes, 'as it is'));
  const found = readKept(JSON.parse(text) as ReadonlyPartialJSONObject);
  expect(found).toEqual({ name: 'n', subject, wishes });
});

test('values of variables, which may be secret, are not stored', () => {
  const wishes = { ...NO_WISHES, env: 'TOKEN=a=b\nB', more: "--in x --env 'C=d e' --env=F=g" };
  const text = JSON.stringify(kept('n', { kind: 'lab' }, wishes, ''));
  const found = readKept(JSON.parse(text) as ReadonlyPartialJSONObject)?.wishes;
  expect(found?.env).toBe('TOKEN\nB');
  expect(found?.more).toBe('--in x --env C --env=F');
});
