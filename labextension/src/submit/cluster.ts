// What a form knows of its cluster: what the cluster says of itself, its images, and how its
// partitions are now. Asked for while the form is looked at; it never asks anybody to log in.
import { useEffect, useState } from 'react';
import { problemOf } from '../model/model';
import type { ISlurmModel } from '../tokens';
import type { ClusterInfo, Image, Partition, Problem } from '../wire';

export interface Known {
  info: ClusterInfo | null;
  images: readonly Image[];
  partitions: readonly Partition[];
  /** Why nothing, or nothing newer, is known. */
  problem: Problem | null;
}

const NOTHING: Known = { info: null, images: [], partitions: [], problem: null };

/** `shown`: whether somebody looks. What was known stays while it is asked anew. */
export function useCluster(model: ISlurmModel, cluster: string, shown: boolean): Known {
  const [known, setKnown] = useState<Known>(NOTHING);
  const [live, setLive] = useState<readonly Partition[]>([]);
  const state = model.connections.get(cluster)?.state;
  const open = state === undefined || state === 'open' || state === 'local';
  useEffect(() => {
    setKnown(NOTHING);
    setLive([]);
  }, [cluster]);
  useEffect(() => {
    let stale = false;
    const ask = async (): Promise<void> => {
      try {
        const info = await model.call<ClusterInfo>('cluster_info', { cluster });
        if (!stale) {
          setKnown(was => ({ ...was, info, partitions: info.partitions, problem: null }));
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
    if (cluster !== '' && shown) {
      void ask();
    }
    return () => {
      stale = true;
    };
  }, [model, cluster, shown, open]);
  const asked = known.info !== null;
  useEffect(() => {
    if (!asked || !shown) {
      return undefined;
    }
    const view = model.nodes(cluster);
    const hear = (): void => {
      setLive(view.partitions);
    };
    view.changed.connect(hear);
    hear();
    return () => {
      view.changed.disconnect(hear);
      view.dispose();
    };
  }, [model, cluster, shown, asked]);
  return { ...known, partitions: merged(known.partitions, live) };
}

/** What changes by the minute is the newer listing's, the rest the cluster's own word. */
function merged(said: readonly Partition[], live: readonly Partition[]): readonly Partition[] {
  const now = new Map(live.map(one => [one.name, one]));
  return said.map(one => {
    const { up, idle_nodes, free_gpus, gpus_by_type } = now.get(one.name) ?? one;
    return { ...one, up, idle_nodes, free_gpus, gpus_by_type };
  });
}
