import type { GpuSample, Job, UsageSample } from '../../wire';
import { average, idleGpus, peak, seriesOf, thinned, type Point } from '../samples';
import { job } from './fakes';

const usage = {
  elapsed_s: 100,
  cpu_s: 40,
  cpus: 4,
  peak_memory_mib: null,
  memory_mib: 8192,
  gpus: null
};

const sample = (
  time_s: number,
  gpus: UsageSample['gpus'] = [],
  node = 'node1',
  cpus = 1
): UsageSample => ({ time_s, cpus, memory_mib: 100, gpus, node });

const gpu = { name: 'H100', utilisation: 0.5, memory_mib: 10, memory_total_mib: 80 };

describe('measurements', () => {
  test('each resource has a series with its requested amount', () => {
    const series = seriesOf([sample(1), sample(2, [gpu])], job({ usage }));
    expect(series.map(({ kind, limit }) => [kind, limit])).toEqual([
      ['cpu', 4],
      ['memory', 8192],
      ['gpu', 1],
      ['gpu-memory', 80]
    ]);
    expect(series[2]?.points).toEqual([
      [1, null],
      [2, 0.5]
    ]);
  });

  test('nodes are summed despite different sample times', () => {
    const two = job({ usage, nodes: ['a', 'b'], started_s: 0 });
    const [cpus, memory] = seriesOf(
      [
        ...[10, 20, 30].map(at => sample(at, [], 'a', 1)),
        ...[11, 21, 29].map(at => sample(at, [], 'b', 2))
      ],
      two
    );
    expect(cpus?.points).toEqual([
      [10, 3],
      [20, 3],
      [30, 3]
    ]);
    expect(cpus?.limit).toBe(4);
    expect(peak(memory?.points ?? [])).toBe(200);
  });

  test('GPU load is averaged and GPU memory is summed', () => {
    const gpus = (node: string, ...busy: (number | null)[]): UsageSample =>
      sample(
        1,
        busy.map(utilisation => ({ ...gpu, utilisation })),
        node
      );
    const nodes = ['a', 'b'];
    const series = seriesOf([gpus('a', 0, 0.4), gpus('b', 0.5, null)], job({ nodes })).slice(2);
    const [load, held] = series.map(({ points, limit }) => [points[0]?.[1], limit]);
    expect(load?.[0]).toBeCloseTo(0.3);
    expect(held).toEqual([40, 320]);
  });

  test('a silent node no longer counts', () => {
    const two = job({ nodes: ['a', 'b'], started_s: 0 });
    const long = [...Array(50).keys()].map(at => sample(10 * at, [], 'a', 1));
    const [cpus] = seriesOf([...long, sample(0, [], 'b', 2), sample(10, [], 'b', 2)], two);
    expect([cpus?.points[1]?.[1], cpus?.points.at(-1)?.[1]]).toEqual([3, 1]);
  });

  test('an average weights samples by their duration', () => {
    const points: Point[] = [
      [0, 9],
      [1, 4],
      [10, 1]
    ];
    expect(average(points)).toBeCloseTo(1.3);
    expect(average([[5, 3]])).toBe(3);
    expect(average([])).toBeNull();
    expect(peak(points)).toBe(9);
    expect(peak([[1, null]])).toBeNull();
  });

  test('a chart is thinned to its width, but keeps peaks', () => {
    const many = Array.from({ length: 1_000 }, (_, at): Point => [at, at === 500 ? 7 : 1]);
    const shown = thinned(many, 100, true);
    expect(shown).toHaveLength(100);
    expect(peak(shown)).toBe(7);
    expect(shown.at(-1)?.[0]).toBe(999);
    expect(thinned(many.slice(0, 3), 100, true)).toEqual(many.slice(0, 3));
  });
});

const load = (utilisation: number | null): GpuSample => ({ ...gpu, utilisation });
const running = job({ nodes: ['a', 'b'], started_s: 100 });
const over: Job = { ...running, state: 'COMPLETED', ended_s: 1000 };

describe('idle GPUs', () => {
  /** Return samples every ten seconds starting at 100, with the load that `of` returns. */
  const looks = (untilS: number, of: (timeS: number) => GpuSample[], node = 'a'): UsageSample[] =>
    Array.from({ length: (untilS - 100) / 10 + 1 }, (_, at) => 100 + at * 10).map(timeS =>
      sample(timeS, of(timeS), node)
    );

  test('idle GPUs are reported after five minutes, with their common idle time', () => {
    const eight = (timeS: number): GpuSample[] =>
      Array.from({ length: 8 }, (_, at) => load(at === 3 && timeS > 100 ? 0.04 : 0.9));
    expect(idleGpus(looks(400, eight), running)).toBeNull();
    expect(idleGpus(looks(410, eight), running)).toEqual({ gpus: 1, of: 8, forS: 300 });
    const two = (timeS: number): GpuSample[] => [load(0), load(timeS < 300 ? 1 : 0)];
    const other = looks(860, () => [load(0.05), load(0.9)], 'b');
    expect(idleGpus([...looks(860, two), ...other], running)).toEqual({
      gpus: 2,
      of: 4,
      forS: 560
    });
  });

  test('GPUs with recent or unknown load, or idle in an earlier run, are not reported', () => {
    const once = (timeS: number): GpuSample[] => [load(timeS === 700 ? 0.05 : 0)];
    expect(idleGpus(looks(1000, once), running)).toBeNull();
    expect(idleGpus(looks(1010, once), running)).toEqual({ gpus: 1, of: 1, forS: 300 });
    expect(idleGpus(looks(1010, once), { ...running, started_s: 800 })).toBeNull();
    expect(
      idleGpus(
        looks(1000, () => [load(null)]),
        running
      )
    ).toBeNull();
    expect(
      idleGpus(
        looks(1000, () => [load(0)]),
        over
      )
    ).toBeNull();
  });
});
