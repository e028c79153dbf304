import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import type { ISlurmModel } from '../../tokens';
import type { GpuSample, Job, Problem, UsageSample } from '../../wire';
import { drawn } from '../../__tests__/drawn';
import { ResourcesPane } from '../resources';
import { job } from './fakes';

let root: Root;

afterEach(() => {
  act(() => root.unmount());
  document.body.replaceChildren();
});

/** What a person sees of these samples. */
async function shown(
  samples: readonly UsageSample[],
  of: Job,
  problem: Problem | null = null
): Promise<HTMLElement> {
  const view = {
    samples,
    freshness: { asOf: 1, problem },
    changed: new Signal<object, void>({}),
    wake: () => undefined,
    dispose: () => undefined
  };
  const model = {
    usage: () => view,
    freshness: { asOf: 1, problem: null }
  } as unknown as ISlurmModel;
  const place = document.body.appendChild(document.createElement('div'));
  await drawn(() => {
    root = createRoot(place);
    root.render(<ResourcesPane job={of} model={model} commands={new CommandRegistry()} />);
  });
  return place;
}

const gpu = (utilisation: number): GpuSample => ({
  name: 'NVIDIA H100',
  utilisation,
  memory_mib: 10240,
  memory_total_mib: 81920
});

const usage = {
  elapsed_s: null,
  cpu_s: null,
  cpus: 16,
  peak_memory_mib: null,
  memory_mib: 32768,
  gpus: 8
};

/** Every node of the job from 110 to 830, with so many GPUs, of which one is idle. */
function measured(of: Job, gpus: number): UsageSample[] {
  return of.nodes.flatMap((node, at) =>
    Array.from({ length: 73 }, (_, look) => ({
      time_s: 110 + look * 10 + at / 10,
      node,
      cpus: 2,
      memory_mib: 2048,
      gpus: Array.from({ length: gpus }, (_, index) => gpu(at === 1 && index === 1 ? 0 : 0.9))
    }))
  );
}

const rows = (place: HTMLElement): string[] =>
  [...place.querySelectorAll('.jp-slurm-Uses tr')].map(row =>
    [...row.children].map(cell => cell.textContent).join(' | ')
  );
const charts = (place: HTMLElement): (string | undefined)[] =>
  [...place.querySelectorAll('figcaption > :first-child')].map(one => one.textContent ?? undefined);

test('"nothing was measured" is shown only if no figure is known', async () => {
  const message = 'It had ended before anything was measured.';
  const rest = { hint: null, detail: null, option: null, transient: false };
  const problem = { code: 'not-measured', message, ...rest };
  const told = job({ state: 'FAILED', usage: { ...usage, peak_memory_mib: 25 } });
  const known = await shown([], told, problem);
  expect(known.textContent).toContain('Its memory was 25 MiB at most');
  expect(known.textContent).not.toContain(message);
  act(() => root.unmount());
  expect((await shown([], job({ state: 'FAILED' }), problem)).textContent).toContain(message);
});

test('every node and GPU has a row, and an idle GPU is told of', async () => {
  const two = job({ usage, nodes: ['n1', '<b>n2'] });
  const place = await shown(measured(two, 2), two);
  expect(place.querySelector('[role=status]')?.textContent).toContain(
    '1 of 4 GPUs idle for 12 min.'
  );
  expect(rows(place)).toEqual([
    'Nodes and GPUs | Busy now | Memory now',
    'n1 | 2 / 8 | 2.0 GiB / 16.0 GiB',
    'GPU 0 | 90 % | 10.0 GiB / 80.0 GiB',
    'GPU 1 | 90 % | 10.0 GiB / 80.0 GiB',
    '<b>n2 | 2 / 8 | 2.0 GiB / 16.0 GiB',
    'GPU 0 | 90 % | 10.0 GiB / 80.0 GiB',
    'GPU 1 | 0 % | 10.0 GiB / 80.0 GiB'
  ]);
  expect(charts(place)).toEqual([
    ...['n1', '<b>n2'].flatMap(node =>
      [0, 1].flatMap(at => [`GPU ${at} on ${node}`, `GPU ${at} on ${node}: memory`])
    ),
    'CPU cores',
    'Memory'
  ]);
  expect(place.textContent).toContain('Its memory was 4.0 GiB at most, of 32.0 GiB.');
  expect(place.textContent).toContain('So far it has used 25 % of the CPU time it asked for.');
  expect(place.textContent).not.toContain('Measured on');
  expect(place.querySelectorAll('b')).toHaveLength(0);
});

test('many nodes and GPUs are summed up, and those are named that differ', async () => {
  const twelve = job({ usage, nodes: Array.from({ length: 12 }, (_, at) => `n${at}`) });
  const place = await shown(measured(twelve, 4), twelve);
  expect(rows(place)).toEqual([
    'Nodes and GPUs | Busy now | Memory now',
    'All 12 nodes | 24 / 16 | 24.0 GiB / 32.0 GiB',
    'All 48 GPUs | 88 % | 480.0 GiB / 3,840.0 GiB',
    'GPU 1 on n1 | 0 % | 10.0 GiB / 80.0 GiB'
  ]);
  expect(charts(place)).toEqual(['GPUs, on average', 'Memory of all GPUs', 'CPU cores', 'Memory']);
  expect(place.textContent).toContain('Its 48 GPUs were busy for 88 % of the time on average.');
  const button = place.querySelector<HTMLElement>('button[aria-expanded]');
  await drawn(() => {
    button?.click();
  });
  expect(rows(place)).toHaveLength(1 + 12 + 48);
});

test('a job on one node without GPUs has charts and no rows; how much was measured is told', async () => {
  const one = job({ usage });
  const place = await shown(
    measured(one, 0).map(sample => ({ ...sample, node: 'node1' })),
    one
  );
  expect(charts(place)).toEqual(['CPU cores', 'Memory']);
  expect(rows(place)).toEqual([]);
  expect(place.textContent).not.toContain('Measured on');
});

test.each([
  [{ gpus: 0 }, 'No GPU: the job did not ask for one (--gpus 1).'],
  [{ gpus: 2 }, 'GPUs not measured: no figures from nvidia-smi on the node.'],
  [
    { gpus: 2, kind: 'script' as const },
    'GPUs not measured: Slurm does not measure those of a batch script.'
  ],
  [{ gpus: 0, session: 'a2b4c6d7' }, null]
])('of a job with %p is told why no GPU is shown', async (what, told) => {
  const one = job(what);
  const place = await shown(measured(one, 0), one);
  const line = place.querySelector('.jp-slurm-Resources > .jp-slurm-Quiet');
  expect(line?.textContent ?? null).toBe(told);
});

test.each([
  [['a'], 'Measured on its first node, a.'],
  [['a', 'b'], 'Measured on 2 of its 3 nodes.'],
  [['a', 'b', 'c'], null],
  [[''], null]
])('what was measured on %p of three nodes says so', async (nodes, told) => {
  const three = job({ usage, nodes: ['a', 'b', 'c'] });
  const samples = nodes.map(node => ({ time_s: 120, node, cpus: 1, memory_mib: 9, gpus: [] }));
  const place = await shown(samples, three);
  expect(
    /Measured.*/.exec(place.querySelector('p:last-of-type')?.textContent ?? '')?.[0] ?? null
  ).toBe(told);
});
