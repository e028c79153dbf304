// A form for another job with the options of an earlier one. No I/O.
import type { Job, JobSpec } from '../wire';
import { said, wishesOf, type Wishes } from './form';
import type { Source } from './source';

/**
 * `code` and `file` are null if they are unknown or deleted. Return null for code that the form
 * cannot show.
 */
export function sourceOf(job: Job, code: string | null, file: string | null): Source | null {
  if (job.kind === 'lab') {
    return { kind: 'lab' };
  }
  if (file !== null) {
    return { kind: 'file', path: file };
  }
  return code === null || code === '' || runsFile(code) ? null : { kind: 'code', code };
}

/** Our code that runs the text of a file (headless.py). */
function runsFile(code: string): boolean {
  return code.startsWith('import types; run_file = types.ModuleType("run_file")');
}

/** Environment values are unknown, so only the names are filled in. */
export function wishesOfJob(spec: JobSpec, cluster: string): Wishes {
  const words = Object.entries(optionsOf(spec)).flatMap(([name, value]) => {
    if (typeof value === 'boolean') {
      return value ? [`--${name}`] : [];
    }
    const values = typeof value === 'string' ? [value] : (value ?? []);
    return values.map(one => said(name, one));
  });
  const flags = Object.entries(spec.options).map(([name, value]) =>
    value === '' ? `--${name}` : said(name, value)
  );
  const wishes = wishesOf([...flags, ...words].join(' '));
  return { ...wishes, cluster, env: Object.keys(spec.env).join('\n') };
}

type Value = string | readonly string[] | boolean | null;

/** Our own options, by name. */
function optionsOf(spec: JobSpec): Record<string, Value> {
  return {
    name: spec.name,
    image: spec.image,
    'container-name': spec.container_name,
    'container-remap-root': spec.container_remap_root,
    runtime: spec.runtime,
    module: spec.modules,
    ...packagesOf(spec),
    after: spec.after.map(({ job, ends }) => `${job}:${ends}`),
    mount: spec.mounts,
    push: spec.push,
    'push-exclude': spec.push_exclude,
    fetch: spec.fetch,
    ...(spec.kind === 'cell' ? optionsOfCell(spec) : {}),
    ...(spec.kind === 'lab' ? { idle: spec.idle_s === null ? null : `${spec.idle_s}s` } : {})
  };
}

function packagesOf({ environment }: JobSpec): Record<string, Value> {
  const packages = environment?.packages ?? [];
  return {
    with: packages.length > 0 ? packages.join(',') : null,
    requirements: environment?.file ?? null,
    'with-mine': environment?.mine ?? false
  };
}

function optionsOfCell(spec: Extract<JobSpec, { kind: 'cell' }>): Record<string, Value> {
  return {
    in: spec.names_in,
    out: spec.names_out,
    'out-format': spec.out_format,
    session: spec.session,
    launch: spec.launch,
    gather: spec.names_gather,
    'max-restarts': spec.max_restarts === 0 ? null : String(spec.max_restarts),
    mpi: spec.mpi,
    tensorboard: spec.tensorboard
  };
}
