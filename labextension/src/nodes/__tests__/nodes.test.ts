import { testOf } from '../../grid/terms';
import type { Node } from '../../wire';
import { columnsOf } from '../columns';
import { condition, freeGpus, kindsOf } from '../nodes';

const COLUMNS = columnsOf();

function node(name: string, more: Partial<Node> = {}): Node {
  return { name, state: 'idle', partitions: ['p'], cpus: 8, cpus_used: 0, ...more };
}

test.each([
  ['idle', 0, 'idle'],
  ['idle~', 0, 'idle'],
  ['planned', 0, 'idle'],
  ['mixed', 3, 'mixed'],
  ['mixed-', 3, 'mixed'],
  ['allocated', 8, 'full'],
  ['idle*', 0, 'out'],
  ['idle$', 0, 'out'],
  ['mixed@', 3, 'out'],
  ['drained', 0, 'out'],
  ['draining', 3, 'out'],
  ['down*', 0, 'out'],
  ['reserved', 0, 'out'],
  ['maint', 0, 'out']
])('a node in state %s with %d used CPUs is %s', (state, cpus_used, expected) =>
  expect(condition(node('n', { state, cpus_used }))).toBe(expected)
);

test('GPUs of an unavailable node are not free', () => {
  const gpus = { gpus: 4, gpus_used: 1 };
  expect(freeGpus(node('n', gpus))).toBe(3);
  expect(freeGpus(node('n', { ...gpus, state: 'drained' }))).toBe(0);
  expect(freeGpus(node('n', { gpus: 4 }))).toBeNull();
});

test('free GPUs are counted by type', () => {
  const a100 = { gpus: 4, gpus_used: 1, gpu_type: 'a100' };
  const kinds = kindsOf([
    node('c1', { gpus_used: 0 }),
    node('a1', a100),
    node('a2', { ...a100, state: 'down' }),
    node('h1', { gpus: 2, gpu_type: 'h100' })
  ]);
  expect(
    kinds.map(({ type, gpus, freeGpus: free, idleNodes }) => [type, gpus, free, idleNodes])
  ).toEqual([
    ['a100', 8, 3, 1],
    ['h100', 2, null, 1],
    [null, 0, 0, 1]
  ]);
});

test('a filter finds nodes by free resources and by their reason', () => {
  const nodes = [
    node('n1', { gpus: 4, gpus_used: 4 }),
    node('n2', { gpus: 4, gpus_used: 1 }),
    node('n3', { state: 'drained', reason: 'Disk' })
  ];
  const found = (words: string): string[] =>
    nodes.filter(testOf(words, COLUMNS, 0)).map(({ name }) => name);
  expect(found('gpus>0')).toEqual(['n2']);
  expect(found('why:disk')).toEqual(['n3']);
  expect(found('state:idle')).toEqual(['n1', 'n2']);
});
