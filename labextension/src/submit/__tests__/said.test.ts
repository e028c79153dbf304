import type { Check, Partition, Preview, Problem } from '../../wire';
import { NO_WISHES, type Wishes } from '../form';
import { seconds, unusable } from '../partitions';
import { sorted } from '../sentences';

const check = (ok: boolean | null, sentence: string, option: string | null = 'time'): Check => ({
  ok,
  sentence,
  hint: 'Less.',
  option
});

test('an error, or else a warning, is shown at its field, and the others below the form', () => {
  const checks = [
    check(null, 'a'),
    check(false, 'b'),
    check(true, 'c'),
    check(false, 'd'),
    check(false, 'else', null)
  ];
  const { byField, others } = sorted({ checks } as unknown as Preview, null);
  expect([...byField]).toEqual([['time', { text: 'b. Less.', ok: false }]]);
  expect(others.map(one => one.text)).toEqual(['d. Less.', 'else. Less.', 'a. Less.', 'c. Less.']);
  const problem = { message: '--mem: `x`', hint: null, option: 'mem' } as Problem;
  expect(sorted(null, problem).byField.get('mem')).toEqual({
    text: '--mem: `x`',
    ok: false
  });
});

test.each([
  ['30', 1800],
  ['30m', 1800],
  ['1h30m', 5400],
  ['90min', 5400],
  ['1:30', 90],
  ['1:00:00', 3600],
  ['1-12', 129_600],
  ['1-00:30', 88_200],
  ['soon', null],
  ['', null]
])('%s is %s seconds', (text, s) => expect(seconds(text)).toBe(s));

const gpu: Partition = {
  name: 'gpu',
  default: true,
  up: true,
  limit_s: 7200,
  nodes: 2,
  idle_nodes: 1,
  gpu_types: ['a100'],
  gpus: 4,
  gpus_by_type: { a100: [4, 3] },
  free_gpus: 3,
  cpus: 8,
  memory_mib: 16_384,
  gpus_per_node: 2,
  max_nodes: 2,
  default_time_s: null,
  exclusive: false,
  allow_qos: [],
  allow_accounts: ['ours'],
  cost: null,
  about: ''
};

test.each<[Partial<Partition>, Partial<Wishes>, string | null]>([
  [{}, {}, null],
  [{}, { gpus: '4', time: '2h', 'cpus-per-task': '8', nodes: '2' }, null],
  [{ up: false }, {}, 'down'],
  [{ gpus: 0 }, { gpus: '1' }, 'no GPUs'],
  [{}, { gpus: '5' }, 'only 4 GPUs'],
  [{}, { gpus: '1', gpuType: 'v100' }, 'no v100'],
  [{}, { time: '3h' }, 'max 2 h'],
  [{}, { time: 'soon' }, null],
  [{}, { 'cpus-per-task': '9' }, 'max 8 CPUs per node'],
  [{}, { nodes: '3' }, 'max 2 nodes']
])('%j with %j: %s', (partition, wishes, why) =>
  expect(unusable({ ...gpu, ...partition }, { ...NO_WISHES, ...wishes })).toBe(why)
);
