// The steps that add a cluster: ask for the way to it, log in, show what was found, keep it or drop
// it. How the two dialogs look is dialogs.ts's; the login is that of every other view.
import { problemOf } from '../model/model';
import type { ISlurmModel } from '../tokens';
import type { ClusterInfo, Problem } from '../wire';
import { foundDialog, NO_WAY, wayDialog } from './dialogs';

/** What a user types. */
export interface Way {
  name: string;
  host: string;
  user: string;
  jump: string;
  /** The folder of Slurm's commands; '': they are on PATH. */
  path: string;
  /** `NAME=VALUE` for these commands, one a line. */
  env: string;
  /** '': none; else the answers to its questions are the way. */
  template: string;
  answers: Record<string, string>;
}

/** What `POST cluster_ways` answers. */
export interface Ways {
  hosts: string[];
  templates: { name: string; about: string; hint: string; ask: Record<string, string> }[];
}

/** What `POST cluster_found` answers; the first of each list is proposed. */
export interface Found {
  info: ClusterInfo;
  python: string | null;
  runtimes: string[];
  job_roots: string[];
  /** '': Slurm has a default. */
  partition: string;
}

/** What is kept beside the way; nothing over a template, which has these settings. */
export interface Choice {
  runtime?: string;
  job_root?: string;
  partition?: string;
  account?: string;
}

/** Add a cluster; return its name, or null if the user gave up, when nothing is kept. */
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

/** Return whether the cluster is kept. It is not after an error. */
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
