// An open form <-> what JupyterLab keeps of it while the page is loaded anew. Pure.
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { keepable, wishesIn, type Wishes } from './form';
import type { CellSource, Source } from './source';

/** What a form is of; a cell is looked for when it is wanted. */
type Subject = Exclude<Source, CellSource> | Pick<CellSource, 'kind' | 'notebook' | 'cell'>;

export interface Kept {
  /** Tells forms apart. */
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

/** null: another version of ours kept it otherwise. */
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
