import type { Job, JobSpec } from '../../wire';
import { sourceOf, wishesOfJob } from '../again';
import { lineOf } from '../form';
import { isRepeatable } from '../source';

const job = (more: Partial<Job>): Job => ({ kind: 'cell', ...more }) as Job;
const RUNS_FILE = 'import types; run_file = types.ModuleType("run_file"); x';

test("a job's code is restored in the form", () => {
  expect(sourceOf(job({ kind: 'lab' }), null, null)).toEqual({ kind: 'lab' });
  expect(sourceOf(job({}), 'x', null)).toEqual({ kind: 'code', code: 'x' });
  for (const path of ['a b/n.ipynb', 'fit.py']) {
    expect(sourceOf(job({}), RUNS_FILE, path)).toEqual({ kind: 'file', path });
  }
  const script = job({ kind: 'program' });
  expect(sourceOf(script, '#!/bin/sh', 'run.sh')).toEqual({ kind: 'file', path: 'run.sh' });
  expect(sourceOf(script, '#!/bin/sh', null)).toEqual({ kind: 'code', code: '#!/bin/sh' });
  const batch = job({ kind: 'script' });
  expect(isRepeatable(batch)).toBe(true);
  const code = '#!/bin/sh\n#SBATCH --time=5';
  expect(sourceOf(batch, code, null)).toEqual({ kind: 'code', code });
});

test('a job that a form cannot show is not offered', () => {
  expect(isRepeatable(job({ kind: 'session' }))).toBe(false);
  expect(sourceOf(job({}), RUNS_FILE, null)).toBeNull();
  expect(sourceOf(job({ kind: 'program' }), '', null)).toBeNull();
  expect(sourceOf(job({}), null, null)).toBeNull();
});

const COMMON = {
  kind: 'cell',
  name: 'fit',
  options: { gpus: 'a100:2', time: '00:30:00', exclusive: '' },
  image: 'x{y}.sif',
  container_name: null,
  container_remap_root: true,
  runtime: null,
  modules: ['gcc', 'cuda'],
  environment: { packages: ['polars', 'numpy>=1,<2'], mine: false, file: '/n/r.txt' },
  after: [{ job: 'k3j5x2m7', ends: 'any' }],
  env: { TOKEN: '', B: '' },
  mounts: ['/a b:/c'],
  push: null,
  push_exclude: [],
  fetch: []
};

test("a job's options are restored in fields, and the rest as text", () => {
  const own = { names_in: ['a', 'b'], names_out: [], out_format: null, session: null };
  const cell = { ...own, launch: 'ray', names_gather: [], max_restarts: 0, mpi: null };
  const spec = { ...COMMON, ...cell, tensorboard: null } as unknown as JobSpec;
  const wishes = wishesOfJob(spec, 'far');
  expect(wishes.env).toBe('TOKEN\nB');
  expect(wishes.image).toBe('x{y}.sif');
  expect(lineOf({ ...wishes, env: '' })).toBe(
    "--cluster far --gpus a100:2 --launch ray --time 00:30:00 --image 'x{{y}}.sif' --name fit " +
      "--module gcc --module cuda --with 'polars,numpy>=1,<2' --exclusive --container-remap-root " +
      "--requirements /n/r.txt --after k3j5x2m7:any --mount '/a b:/c' --in a --in b"
  );
});
