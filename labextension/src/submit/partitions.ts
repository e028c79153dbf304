// A partition's maxima and its free resources. Slurm judges everything else. No I/O.
import { duration } from '../format';
import { listed } from '../language';
import { trans } from '../translation';
import type { Partition } from '../wire';
import type { Wishes } from './form';

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, min: 60, h: 3600, d: 86_400 };

/**
 * Return the seconds of `30` (minutes), `30m`, `1h30m`, `1:00:00`, `2-12`, `2-12:00:00`; null if it
 * is not a time.
 */
export function seconds(text: string): number | null {
  const word = text.trim().toLowerCase();
  if (/^(?:\d+(?:min|[smhd]))+$/.test(word)) {
    const parts = word.matchAll(/(\d+)(min|[smhd])/g);
    return [...parts].reduce((sum, [, n, unit]) => sum + Number(n) * (UNITS[unit ?? ''] ?? 0), 0);
  }
  const [, days, clock] = /^(?:(\d+)-)?(\d+(?::\d+){0,2})$/.exec(word) ?? [];
  if (clock === undefined) {
    return null;
  }
  const [first = 0, second = 0, third = 0] = clock.split(':').map(Number);
  const colons = clock.split(':').length - 1;
  if (days !== undefined) {
    return Number(days) * 86_400 + first * 3600 + second * 60 + third;
  }
  return colons === 2 ? first * 3600 + second * 60 + third : first * 60 + second;
}

/** Return the partition's maxima that the job exceeds; null if the job exceeds none. */
export function unusable(one: Partition, wishes: Wishes): string | null {
  const gpus = Number(wishes.gpus || 0);
  const wantedS = seconds(wishes.time);
  if (!one.up) {
    return trans.__('down');
  }
  if (gpus > 0 && one.gpus === 0) {
    return trans.__('no GPUs');
  }
  if (gpus > one.gpus) {
    return trans._n('only %1 GPU', 'only %1 GPUs', one.gpus);
  }
  if (gpus > 0 && wishes.gpuType !== '' && !one.gpu_types.includes(wishes.gpuType)) {
    return trans.__('no %1', wishes.gpuType);
  }
  if (wantedS !== null && one.limit_s !== null && wantedS > one.limit_s) {
    return trans.__('max %1', duration(one.limit_s));
  }
  if (one.cpus !== null && Number(wishes['cpus-per-task']) > one.cpus) {
    return trans._n('max %1 CPU per node', 'max %1 CPUs per node', one.cpus);
  }
  if (one.max_nodes !== null && Number(wishes.nodes) > one.max_nodes) {
    return trans._n('max %1 node', 'max %1 nodes', one.max_nodes);
  }
  return null;
}

/** A choice: its name, and its live figures or the reason why it is not available. */
export function told(one: Partition, why: string | null): string {
  return `${one.name} — ${why ?? offer(one)}`;
}

/** Its time limit, and its free resources. */
export function offer(one: Partition): string {
  const facts = [limit(one), freeGpus(one) || idleNodes(one)];
  return listed(facts);
}

export function freeGpus(one: Partition): string {
  return one.gpus > 0 && one.free_gpus !== null
    ? trans.__('%1 of %2 GPUs free', one.free_gpus, one.gpus)
    : '';
}

function idleNodes(one: Partition): string {
  return trans.__('%1 of %2 nodes idle', one.idle_nodes, one.nodes);
}

function limit(one: Partition): string {
  return one.limit_s === null ? '' : trans.__('max %1', duration(one.limit_s));
}

/** The free number of a type; '' if unknown. */
export function freeOfType(one: Partition, type: string): string {
  const [all, free] = one.gpus_by_type[type] ?? [];
  return all === undefined || free === undefined || free === null
    ? ''
    : trans.__('%1 of %2 free', free, all);
}

/** The partition to which the job would go; undefined if unknown. */
export function chosen(partitions: readonly Partition[], name: string): Partition | undefined {
  return partitions.find(one => (name === '' ? one.default : one.name === name));
}
