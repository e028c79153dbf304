// Which path and which cell are meant. Pure: no server, no widgets.
import { jobNamed, MIME } from '../card/renderer';

/** `path` relative to the server's root; null: it is not below it, or '': nobody knows it. */
export function belowRoot(path: string, root: string): string | null {
  const folder = root.replace(/\/+$/, '');
  if (root === '' || !path.startsWith(`${folder}/`)) {
    return null;
  }
  return path.slice(folder.length + 1);
}

/** The jobs that are the outputs of a cell, as it is saved. */
export function jobsIn(cell: unknown): string[] {
  const { outputs } = Object(cell) as { outputs?: unknown };
  return (Array.isArray(outputs) ? outputs : []).flatMap(output => {
    const { data } = Object(output) as { data?: unknown };
    return jobNamed((Object(data) as Record<string, unknown>)[MIME]) ?? [];
  });
}
