import type { UsageSample } from '../../wire';
import { average, peak, seriesOf, thinned, type Point } from '../samples';
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

describe('what was measured', () => {
  test('has a series for each thing, and what was asked for of it', () => {
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

  test('of several nodes is a sum, though each is measured in its own time', () => {
    const two = job({ usage, nodes: ['a', 'b'], started_s: 0 });
    const [cpus, memory] = seriesOf(
      [
        ...[10, 20, 30].map(at => sample(at, [], 'a', 1)),
        ...[11, 21, 29].map(at => sample(at, [], 'b', 2))
      ],
      two
    );
    expect(cpus?.points).toEqual([
      [11, 3],
      [21, 3],
      [30, 3]
    ]);
    expect(cpus?.limit).toBe(4);
    expect(peak(memory?.points ?? [])).toBe(200);
  });

  test('has a series for each GPU of each node, and one for more than eight', () => {
    const nodes = ['a', 'b'];
    const gpus = (count: number): UsageSample[] =>
      nodes.map(node =>
        sample(
          1,
          Array.from({ length: count }, (_, at) => ({ ...gpu, utilisation: at === 0 ? 0 : 0.5 })),
          node
        )
      );
    const few = seriesOf(gpus(2), job({ nodes })).filter(one => one.kind === 'gpu');
    expect(few.map(({ node, index }) => `${node}${index}`)).toEqual(['a0', 'a1', 'b0', 'b1']);
    const many = seriesOf(gpus(5), job({ nodes })).slice(2);
    expect(many.map(({ kind, limit, points }) => [kind, limit, points[0]?.[1]])).toEqual([
      ['gpus', 1, 0.4],
      ['gpus-memory', 800, 100]
    ]);
  });

  test('is averaged over time, not over looks', () => {
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

  test('of which a chart shows no more than it has room for, but peaks always', () => {
    const many = Array.from({ length: 1_000 }, (_, at): Point => [at, at === 500 ? 7 : 1]);
    const shown = thinned(many, 100, true);
    expect(shown).toHaveLength(100);
    expect(peak(shown)).toBe(7);
    expect(shown.at(-1)?.[0]).toBe(999);
    expect(thinned(many.slice(0, 3), 100, true)).toEqual(many.slice(0, 3));
  });
});
