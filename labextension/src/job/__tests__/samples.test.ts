import type { UsageSample } from '../../wire';
import { byNode } from '../measured';
import { asked, average, charted, cpuShare, peak, seriesOf, thinned, type Point } from '../samples';
import { bytes, languageOf } from '../words';
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

  test('of a part of a GPU has its memory, and not how busy it is', () => {
    const part = { name: 'A100 MIG', utilisation: null, memory_mib: 10, memory_total_mib: 80 };
    const [, , busy, memory] = seriesOf([sample(1, [part])], job({ usage }));
    expect(peak(busy?.points ?? [])).toBeNull();
    expect(peak(memory?.points ?? [])).toBe(10);
  });

  test('of a GPU that shares the memory of its machine is how busy it is', () => {
    const gpu = { name: 'GB10', utilisation: 0.9, memory_mib: null, memory_total_mib: null };
    const series = charted(seriesOf([sample(1, [gpu])], job({ usage })));
    expect(series.map(({ kind }) => kind)).toEqual(['gpu', 'cpu', 'memory']);
    expect(peak(series[0]?.points ?? [])).toBe(0.9);
  });

  test('is set against what those of its nodes have that are measured', () => {
    const two = job({ usage, nodes: ['a', 'b'] });
    const first = [sample(1, [], 'a')];
    expect(asked(two, byNode(first, two))).toEqual({ cpus: 2, memoryMib: 4096 });
    const both = [...first, sample(1, [], 'b')];
    expect(asked(two, byNode(both, two))).toEqual({ cpus: 4, memoryMib: 8192 });
    const bySlurm = [sample(1, [], '')];
    expect(asked(two, byNode(bySlurm, two))).toEqual({ cpus: 4, memoryMib: 8192 });
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

  test('of a node that is silent counts no more, nor does what was before it began anew', () => {
    const two = job({ usage, nodes: ['a', 'b'], started_s: 0 });
    const samples = [sample(10, [], 'b', 2), ...[10, 20, 300].map(at => sample(at, [], 'a'))];
    const sums = (started_s: number): unknown[] =>
      seriesOf(samples, { ...two, started_s })[0]?.points.map(([, value]) => value) ?? [];
    expect(sums(0)).toEqual([3, 3, 1]);
    expect(sums(15)).toEqual([3, 1, 1]);
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

  test('is of so many nodes and no more, whatever a file says', () => {
    const samples = Array.from({ length: 2_000 }, (_, at) => sample(at, [], `made-up-${at}`));
    expect(byNode(samples, job())).toHaveLength(511);
    expect(byNode([...samples, sample(1)], job())).toHaveLength(512);
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

  test('the share of the CPU time is told where somebody counted', () => {
    expect(cpuShare(job({ usage }))).toBeCloseTo(0.1);
    expect(cpuShare(job({ usage: { ...usage, cpu_s: 0 } }))).toBe(0);
    expect(cpuShare(job())).toBeNull();
  });
});

test('amounts of output', () =>
  expect([12, 34_500, 1_250_000, 104_857_600].map(bytes)).toEqual([
    '12 bytes',
    '35 kB',
    '1.3 MB',
    '105 MB'
  ]));

test.each([
  ['print(1)', 'cell', 'python'],
  ['#!/usr/bin/env python3\n', 'program', 'python'],
  ['#!/bin/bash -l\n', 'script', 'shell'],
  ['hostname', 'program', 'shell'],
  ['#!/usr/bin/perl\n', 'program', 'text']
] as const)('%s of a %s is %s', (code, kind, language) =>
  expect(languageOf(code, kind)).toBe(language)
);
