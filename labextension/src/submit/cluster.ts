// The form's data about its cluster: facts, images and live partitions. It never starts a login.
import { useCallback, useEffect, useState } from 'react';
import { useFeed } from '../grid/feed';
import { problemOf } from '../model/model';
import type { ISlurmModel } from '../tokens';
import { useSeen } from '../watching';
import type { ClusterInfo, Image, Partition, Problem } from '../wire';

export interface Known {
  info: ClusterInfo | null;
  images: readonly Image[];
  partitions: readonly Partition[];
  /** UTC epoch seconds of the live figures; null if unknown. */
  asOf: number | null;
  /** The reason why the rest is missing or old. */
  problem: Problem | null;
}

const NOTHING: Known = { info: null, images: [], partitions: [], asOf: null, problem: null };

/** Keep the last answer until the next arrives. */
export function useCluster(model: ISlurmModel, cluster: string): Known {
  const seen = useSeen();
  const [known, setKnown] = useState<Known>(NOTHING);
  const state = model.connections.get(cluster)?.state;
  const open = state === undefined || state === 'open' || state === 'local';
  useEffect(() => setKnown(NOTHING), [cluster]);
  useEffect(() => {
    let stale = false;
    const ask = async (): Promise<void> => {
      try {
        const info = await model.call<ClusterInfo>('cluster_info', { cluster });
        if (!stale) {
          const { partitions, asked_s: asOf } = info;
          setKnown(was => ({ ...was, info, partitions, asOf, problem: null }));
        }
        const images = await model.call<Image[]>('images', { cluster });
        if (!stale) {
          setKnown(was => ({ ...was, images }));
        }
      } catch (error) {
        if (!stale) {
          setKnown(was => ({ ...was, problem: problemOf(error) }));
        }
      }
    };
    if (cluster !== '' && seen) {
      void ask();
    }
    return () => {
      stale = true;
    };
  }, [model, cluster, seen, open]);
  const openNodes = useCallback(() => model.nodes(cluster), [model, cluster]);
  const { view } = useFeed(known.info === null ? null : openNodes);
  // `view` belongs to the old cluster until the new cluster answers
  const live = view?.cluster === cluster ? view : null;
  const partitions = merged(known.partitions, live?.partitions ?? []);
  return { ...known, partitions, asOf: live?.freshness.asOf ?? known.asOf };
}

/** Combine the cluster's facts with the live figures. */
function merged(said: readonly Partition[], live: readonly Partition[]): readonly Partition[] {
  const now = new Map(live.map(one => [one.name, one]));
  return said.map(one => {
    const { up, idle_nodes, free_gpus, gpus_by_type } = now.get(one.name) ?? one;
    return { ...one, up, idle_nodes, free_gpus, gpus_by_type };
  });
}
