// Paths and cells of jobs. No I/O.
import { jobNamed, MIME } from '../card/renderer';

/**
 * Return `path` relative to the server's root; null if it is outside of the root, or if the root is
 * unknown ('').
 */
export function belowRoot(path: string, root: string): string | null {
  const folder = root.replace(/\/+$/, '');
  if (root === '' || !path.startsWith(`${folder}/`)) {
    return null;
  }
  return path.slice(folder.length + 1);
}

/** Return the IDs of the jobs in the outputs of a saved cell. */
export function jobsIn(cell: unknown): string[] {
  const { outputs } = Object(cell) as { outputs?: unknown };
  return (Array.isArray(outputs) ? outputs : []).flatMap(output => {
    const { data } = Object(output) as { data?: unknown };
    return jobNamed((Object(data) as Record<string, unknown>)[MIME]) ?? [];
  });
}
