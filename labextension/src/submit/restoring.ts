// Conversion between an open form and its state in JupyterLab across a reload. No I/O.
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { keepable, wishesIn, type Wishes } from './form';
import type { CellSource, Source } from './source';

/** The source of a form. A cell is looked up later. */
type Subject = Exclude<Source, CellSource> | Pick<CellSource, 'kind' | 'notebook' | 'cell'>;

export interface Kept {
  /** Identifies the form. */
  name: string;
  subject: Subject;
  wishes: Wishes;
}

export function kept(
  name: string,
  source: Source,
  wishes: Wishes,
  code: string
): ReadonlyPartialJSONObject {
  return { name, subject: { ...subjectOf(source, code) }, wishes: keepable(wishes) };
}

function subjectOf(source: Source, code: string): Subject {
  switch (source.kind) {
    case 'code':
      return { kind: 'code', code };
    case 'cell':
      return { kind: 'cell', notebook: source.notebook, cell: source.cell };
    default:
      return source;
  }
}

/** The state; null if an incompatible version saved it. */
export function readKept(value: ReadonlyPartialJSONObject): Kept | null {
  const { name, subject, wishes } = value as Record<string, unknown>;
  const read = readSubject((subject ?? {}) as Record<string, unknown>);
  if (typeof name !== 'string' || read === null) {
    return null;
  }
  return { name, subject: read, wishes: wishesIn(wishes) };
}

function readSubject({
  kind,
  code,
  path,
  notebook,
  cell
}: Record<string, unknown>): Subject | null {
  if (kind === 'lab' || kind === 'kernel') {
    return { kind };
  }
  if (kind === 'code' && typeof code === 'string') {
    return { kind, code };
  }
  if (kind === 'file' && typeof path === 'string') {
    return { kind, path };
  }
  return kind === 'cell' && typeof notebook === 'string' && typeof cell === 'string'
    ? { kind, notebook, cell }
    : null;
}
