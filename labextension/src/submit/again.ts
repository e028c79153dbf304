// A job that was submitted -> the form that makes another one like it. Pure.
import type { Job, JobSpec } from '../wire';
import { said, wishesOf, type Wishes } from './form';
import type { Source } from './source';

/**
 * `code`: what it ran; null: that is not known. `file`: the path of the file that it was made of;
 * null: it was made of none, or that is not there. null: it ran something that the form cannot show.
 */
export function sourceOf(job: Job, code: string | null, file: string | null): Source | null {
  if (job.kind === 'lab') {
    return { kind: 'lab' };
  }
  if (file !== null) {
    return { kind: 'file', path: file };
  }
  return code === null || code === '' || isDriver(code) ? null : { kind: 'code', code };
}

/** It is ours, and what it runs is a file's text (headless.py). */
function isDriver(code: string): boolean {
  return code.startsWith('import types; driver = types.ModuleType("driver")');
}

/** Of the variables only the names are known: their values are to be filled in. */
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

/** Ours, by their names in a line. */
function optionsOf(spec: JobSpec): Record<string, Value> {
  return {
    name: spec.name,
    image: spec.image,
    'container-name': spec.container_name,
    'container-remap-root': spec.container_remap_root,
    runtime: spec.runtime,
    module: spec.modules,
    mount: spec.mounts,
    push: spec.push,
    'push-exclude': spec.push_exclude,
    fetch: spec.fetch,
    ...(spec.kind === 'cell' ? optionsOfCell(spec) : {}),
    ...(spec.kind === 'lab' ? { idle: spec.idle_s === null ? null : `${spec.idle_s}s` } : {})
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
