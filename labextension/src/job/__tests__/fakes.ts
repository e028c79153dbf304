// Chunks of output, and a job with the fields that the pure parts of the job panel read.
import type { Job, LogChunk, Output } from '../../wire';

export function job(what: Partial<Job> = {}): Job {
  const known = {
    id: '0a1b2c3d',
    cluster: 'here',
    name: 'train',
    kind: 'cell',
    state: 'RUNNING',
    slurm_id: '7',
    started_s: 110,
    ended_s: null,
    nodes: ['node1'],
    usage: null,
    gpus: 0,
    session: null
  } as Partial<Job>;
  return { ...known, ...what } as Job;
}

export function chunk(...outputs: Output[]): LogChunk {
  return {
    job: job(),
    outputs,
    cursor: '1',
    skipped_bytes: 0,
    more: false,
    end: false,
    show: 'full'
  };
}

export function out(text: string, timeS = 0): Output {
  return { type: 'stream', name: 'stdout', text, time_s: timeS };
}

export function err(text: string, timeS = 0): Output {
  return { type: 'stream', name: 'stderr', text, time_s: timeS };
}
