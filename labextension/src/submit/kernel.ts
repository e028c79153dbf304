// The kernel that a form would make, as the server says it: its title and name where none are said.
import { useEffect, useState } from 'react';
import type { ISlurmModel } from '../tokens';
import type { RemoteKernel } from '../wire';
import { Latest } from './latest';

/** null: it is not known, or cannot be; why not is the preview's to say. */
export function useKernel(model: ISlurmModel, line: string, wanted: boolean): RemoteKernel | null {
  const [kernel, setKernel] = useState<RemoteKernel | null>(null);
  const [latest, setLatest] = useState<Latest<string, RemoteKernel | null> | null>(null);
  useEffect(() => {
    const made = new Latest<string, RemoteKernel | null>(
      async asked => {
        try {
          return await model.call<RemoteKernel>('kernel_meant', { line: asked });
        } catch {
          return null;
        }
      },
      (_, answer) => {
        setKernel(answer);
      }
    );
    setLatest(made);
    return () => {
      made.dispose();
    };
  }, [model]);
  useEffect(() => {
    if (wanted) {
      latest?.want(line);
    }
  }, [latest, line, wanted]);
  return wanted ? kernel : null;
}
