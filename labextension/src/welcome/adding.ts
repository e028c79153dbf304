// The steps that add a cluster: ask how to connect, log in, show the detected settings, and save or
// discard the cluster.
import { problemOf } from '../model/model';
import type { ISlurmModel } from '../tokens';
import type { ClusterInfo, Problem } from '../wire';
import { foundDialog, NO_WAY, wayDialog } from './dialogs';

/** The user's input. */
export interface Way {
  name: string;
  host: string;
  user: string;
  jump: string;
  /** The directory of Slurm's commands; '' if they are on PATH. */
  path: string;
  /** `NAME=VALUE` for these commands, one per line. */
  env: string;
  /** The template; '' without a template. With a template, `answers` contains the input. */
  template: string;
  answers: Record<string, string>;
}

/** The answer of `POST cluster_ways`. */
export interface Ways {
  hosts: string[];
  templates: { name: string; about: string; hint: string; ask: Record<string, string> }[];
}

/** The answer of `POST cluster_found`. The first entry of each list is proposed. */
export interface Found {
  info: ClusterInfo;
  python: string | null;
  runtimes: string[];
  job_roots: string[];
  /** The default; '' if Slurm has one. */
  partition: string;
}

/** The settings to save. A template sets them itself. */
export interface Choice {
  runtime?: string;
  job_root?: string;
  partition?: string;
  account?: string;
}

/** Add a cluster, and return its name. Return null if the user cancelled. */
export async function addCluster(model: ISlurmModel): Promise<string | null> {
  const ways = await model.call<Ways>('cluster_ways');
  let way: Way = { ...NO_WAY, name: '', template: '' };
  let problem: Problem | null = null;
  for (;;) {
    const typed = await wayDialog(way, problem, ways);
    if (typed === null) {
      return null;
    }
    way = typed;
    try {
      return (await add(model, way)) ? way.name : null;
    } catch (error) {
      problem = problemOf(error);
    }
  }
}

/** Return whether the cluster is saved. */
async function add(model: ISlurmModel, way: Way): Promise<boolean> {
  const { name } = way;
  await model.call('cluster_begin', { ...way });
  let kept = false;
  try {
    const choice = (await model.connect(name)) ? await choose(model, way) : null;
    if (choice !== null) {
      await model.call('cluster_keep', { name, ...choice });
      kept = true;
    }
  } finally {
    if (!kept) {
      await model.call('cluster_drop', { name });
    }
  }
  return kept;
}

async function choose(model: ISlurmModel, { name, template }: Way): Promise<Choice | null> {
  const found = await model.call<Found>('cluster_found', { name });
  return foundDialog(name, found, template === '');
}
