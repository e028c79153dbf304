import type { GpuSample, Job, UsageSample } from '../../wire';
import { idleGpus, outliers, usesOf } from '../uses';
import { job } from './fakes';

const gpu = (utilisation: number | null, memory_mib = 40): GpuSample => ({
  name: 'H100',
  utilisation,
  memory_mib,
  memory_total_mib: 80
});

const sample = (time_s: number, node: string, gpus: GpuSample[] = [], cpus = 1): UsageSample => ({
  time_s,
  node,
  cpus,
  memory_mib: 1024 * cpus,
  gpus
});

const usage = {
  elapsed_s: null,
  cpu_s: null,
  cpus: 8,
  peak_memory_mib: null,
  memory_mib: 16384,
  gpus: 4
};
const running = job({ usage, nodes: ['a', 'b'], started_s: 100 });
const over: Job = { ...running, state: 'COMPLETED', ended_s: 1000 };

describe('what each node and GPU uses', () => {
  test('is its last sample while the job runs, each GPU below its node', () => {
    const samples = [
      sample(110, 'a', [gpu(0.1), gpu(0.2)]),
      sample(120, 'a', [gpu(0.9), gpu(0.8)], 3),
      sample(119, 'b', [gpu(0.7), gpu(null)], 2)
    ];
    const found = usesOf(samples, running).map(one => [
      one.kind,
      one.node,
      one.index,
      one.busy.value,
      one.busy.limit,
      one.memory.limit
    ]);
    expect(found).toEqual([
      ['node', 'a', 0, 3, 4, 8192],
      ['gpu', 'a', 0, 0.9, 1, 80],
      ['gpu', 'a', 1, 0.8, 1, 80],
      ['node', 'b', 0, 2, 4, 8192],
      ['gpu', 'b', 0, 0.7, 1, 80],
      ['gpu', 'b', 1, null, 1, 80]
    ]);
  });

  test('is an average and a peak once it is over', () => {
    const samples = [
      sample(110, 'a', [gpu(0, 70)], 4),
      sample(120, 'a', [gpu(0.2, 10)], 1),
      sample(130, 'a', [gpu(0.4, 10)], 2)
    ];
    const [node, first] = usesOf(samples, over);
    expect([node?.busy.value, node?.memory.value]).toEqual([1.5, 4096]);
    expect(first?.busy.value).toBeCloseTo(0.3);
    expect(first?.memory.value).toBe(70);
  });
});

describe('of many, those stand out', () => {
  const many = (values: readonly (number | null)[]): ReturnType<typeof usesOf> =>
    usesOf(
      [
        sample(
          200,
          'a',
          values.map(value => gpu(value))
        )
      ],
      running
    ).filter(one => one.kind === 'gpu');

  test('that differ much from most', () => {
    const found = outliers(many([0.9, 0.8, 0.02, 0.9, 0.95, null, 0.9, 0.85, 0.3, 0.9]));
    expect(found.map(one => one.index)).toEqual([2, 8]);
    expect(outliers(many(Array.from({ length: 12 }, () => 0.5)))).toEqual([]);
    expect(outliers(many([null, null]))).toEqual([]);
  });
});

describe('idle GPUs', () => {
  /** Every ten seconds from 100 on, as busy as `of` says. */
  const looks = (untilS: number, of: (timeS: number) => GpuSample[], node = 'a'): UsageSample[] =>
    Array.from({ length: (untilS - 100) / 10 + 1 }, (_, at) => 100 + at * 10).map(timeS =>
      sample(timeS, node, of(timeS))
    );

  test('are told of after five minutes, and for how long all of them are', () => {
    const eight = (timeS: number): GpuSample[] =>
      Array.from({ length: 8 }, (_, at) => gpu(at === 3 && timeS > 100 ? 0.04 : 0.9));
    expect(idleGpus(looks(400, eight), running)).toBeNull();
    expect(idleGpus(looks(410, eight), running)).toEqual({ gpus: 1, of: 8, forS: 300 });
    const two = (timeS: number): GpuSample[] => [gpu(0), gpu(timeS < 300 ? 1 : 0)];
    const other = looks(860, () => [gpu(0.05), gpu(0.9)], 'b');
    expect(idleGpus([...looks(860, two), ...other], running)).toEqual({
      gpus: 2,
      of: 4,
      forS: 560
    });
  });

  test('are not those that worked meanwhile, or do not tell, or were so in a run before', () => {
    const once = (timeS: number): GpuSample[] => [gpu(timeS === 700 ? 0.05 : 0)];
    expect(idleGpus(looks(1000, once), running)).toBeNull();
    expect(idleGpus(looks(1010, once), running)).toEqual({ gpus: 1, of: 1, forS: 300 });
    expect(idleGpus(looks(1010, once), { ...running, started_s: 800 })).toBeNull();
    expect(
      idleGpus(
        looks(1000, () => [gpu(null)]),
        running
      )
    ).toBeNull();
    expect(
      idleGpus(
        looks(1000, () => [gpu(0)]),
        over
      )
    ).toBeNull();
  });
});
