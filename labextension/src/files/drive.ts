// The files of clusters as a drive of JupyterLab. It stores only the parts of an upload.
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents, ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { SlurmError } from '../server';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { FileContent, FileEntry, FileListing } from '../wire';
import { bytesOf, base64Of, textOf } from './bytes';
import { distrusted, notebookOf } from './trust';

/** A path: `Slurm:CLUSTER/path`. */
const NAME = 'Slurm';
const NEVER = new Date(0).toISOString();
/** Time for the browser to start a download. */
const DOWNLOAD_MS = 60_000;

type Calls = Pick<ISlurmModel, 'call' | 'clusters'>;

/** An error in the form that JupyterLab expects. */
class DriveError extends Error {
  constructor(
    message: string,
    readonly response: { status: number }
  ) {
    super(message);
  }
}

export class ClusterDrive implements Contents.IDrive {
  readonly name = NAME;
  readonly fileChanged = new Signal<this, Contents.IChangedArgs>(this);
  isDisposed = false;
  private readonly parts = new Map<string, Uint8Array[]>();
  /** The number of reported changes. */
  private changes = 0;

  constructor(
    private readonly model: Calls,
    private readonly types: Pick<DocumentRegistry, 'getFileTypesForPath'>,
    readonly serverSettings: ServerConnection.ISettings
  ) {}

  dispose(): void {
    this.isDisposed = true;
    Signal.clearData(this);
  }

  async get(path: string, options: Contents.IFetchOptions = {}): Promise<Contents.IModel> {
    if (path === '') {
      return this.root();
    }
    const entry = await this.entry(path);
    if (entry.kind === 'folder') {
      return options.content === false ? folder(entry, path, null) : this.listing(path);
    }
    if (options.content === false) {
      return this.file(entry, path);
    }
    const got = await this.ask<FileContent>('read_file', path);
    return this.file(got.entry, path, got.content, options);
  }

  async getDownloadUrl(path: string): Promise<string> {
    const { content } = await this.ask<FileContent>('read_file', path);
    // The browser would run an active type with the rights of JupyterLab's origin.
    const blob = new Blob([bytesOf(content)], { type: 'application/octet-stream' });
    const url = URL.createObjectURL(blob);
    window.setTimeout(() => URL.revokeObjectURL(url), DOWNLOAD_MS);
    return url;
  }

  async newUntitled(options: Contents.ICreateOptions = {}): Promise<Contents.IModel> {
    const { path = '', type = 'file', ext = '' } = options;
    const listed = await this.ask<FileListing>('list_folder', path);
    const isFolder = type === 'directory';
    const stem = isFolder ? 'untitled folder' : type === 'notebook' ? 'Untitled' : 'untitled';
    const end = isFolder ? '' : type === 'notebook' ? '.ipynb' : ext;
    const name = unused(stem, end, new Set(listed.entries.map(one => one.name)));
    const made = `${path}/${name}`;
    const model = isFolder
      ? folder(await this.ask<FileEntry>('make_folder', made), made, null)
      : await this.put(made, type === 'notebook' ? EMPTY_NOTEBOOK : new Uint8Array());
    this.tell({ type: 'new', oldValue: null, newValue: model });
    return model;
  }

  async delete(path: string): Promise<void> {
    await this.ask('remove_file', path);
    this.tell({ type: 'delete', oldValue: { path }, newValue: null });
  }

  async rename(from: string, to: string): Promise<Contents.IModel> {
    const [cluster] = placeOf(from);
    const [other, target] = placeOf(to);
    if (cluster !== other) {
      throw this.refused(trans.__('A file cannot be moved from one cluster to another.'));
    }
    const entry = await this.ask<FileEntry>('rename_file', from, { to: target });
    const model = entry.kind === 'folder' ? folder(entry, to, null) : this.file(entry, to);
    this.tell({ type: 'rename', oldValue: { path: from }, newValue: model });
    return model;
  }

  async save(path: string, options: Partial<Contents.IModel> = {}): Promise<Contents.IModel> {
    if (options.type === 'directory') {
      return folder(await this.ask<FileEntry>('make_folder', path), path, null);
    }
    const bytes = contentOf(options);
    const { chunk } = options;
    let whole = bytes;
    if (chunk !== undefined) {
      const parts = chunk === 1 ? [bytes] : [...(this.parts.get(path) ?? []), bytes];
      if (chunk !== -1) {
        this.parts.set(path, parts);
        return this.file(onTheWay(nameOf(path)), path);
      }
      this.parts.delete(path);
      whole = joined(parts);
    }
    const model = await this.put(path, whole, options.type);
    this.tell({ type: 'save', oldValue: null, newValue: model });
    return model;
  }

  async copy(path: string, toFolder: string): Promise<Contents.IModel> {
    const [listed, got] = await Promise.all([
      this.ask<FileListing>('list_folder', toFolder),
      this.ask<FileContent>('read_file', path)
    ]);
    const [, stem = '', end = ''] = /^(.+?)(\.[^.]*)?$/s.exec(nameOf(path)) ?? [];
    const there = new Set(listed.entries.map(one => one.name));
    const name = there.has(nameOf(path)) ? unused(`${stem}-Copy`, end, there, 1) : nameOf(path);
    const model = await this.put(`${toFolder}/${name}`, bytesOf(got.content));
    this.tell({ type: 'new', oldValue: null, newValue: model });
    return model;
  }

  /** JupyterLab requests checkpoints after each save, but the drive does not have any. */
  createCheckpoint(): Promise<Contents.ICheckpointModel> {
    return Promise.resolve({ id: 'none', last_modified: NEVER });
  }

  listCheckpoints(): Promise<Contents.ICheckpointModel[]> {
    return Promise.resolve([]);
  }

  restoreCheckpoint(): Promise<void> {
    return Promise.reject(this.refused(trans.__('Files of a cluster have no checkpoints.')));
  }

  deleteCheckpoint(): Promise<void> {
    return Promise.resolve();
  }

  private async entry(path: string): Promise<FileEntry> {
    return this.ask<FileEntry>('file_entry', path);
  }

  private root(): Contents.IModel {
    const content = this.model.clusters.map(({ name }) =>
      folder({ ...onTheWay(name), kind: 'folder', writable: false }, name, null)
    );
    return folder({ ...onTheWay(''), kind: 'folder', writable: false }, '', content);
  }

  private tell(change: Contents.IChangedArgs): void {
    this.changes += 1;
    this.fileChanged.emit(change);
  }

  /**
   * List the folder. List it again if we made a change during the listing, which then lacks the
   * change.
   */
  private async listing(path: string): Promise<Contents.IModel> {
    const before = this.changes;
    const listed = await this.ask<FileListing>('list_folder', path);
    if (before !== this.changes) {
      return this.listing(path);
    }
    const content = listed.entries.filter(isInside).map(one => {
      const inside = `${path}/${one.name}`;
      return one.kind === 'folder' ? folder(one, inside, null) : this.file(one, inside);
    });
    return folder(listed.folder, path, content);
  }

  private async put(
    path: string,
    bytes: Uint8Array,
    type?: Contents.ContentType
  ): Promise<Contents.IModel> {
    const isNotebook = type === 'notebook' || this.isNotebook(path);
    const text = isNotebook ? textOf(base64Of(bytes)) : null;
    const kept = text === null ? null : this.asNotebook(distrusted(text), path);
    const content = base64Of(kept === null ? bytes : new TextEncoder().encode(kept));
    return this.file(await this.ask<FileEntry>('write_file', path, { content }), path);
  }

  private isNotebook(path: string): boolean {
    return this.types.getFileTypesForPath(path).some(type => type.contentType === 'notebook');
  }

  /** `content` is base64. */
  private file(
    entry: FileEntry,
    path: string,
    content?: string,
    options: Contents.IFetchOptions = {}
  ): Contents.IModel {
    const known = this.types.getFileTypesForPath(path)[0];
    const type = options.type ?? known?.contentType ?? 'file';
    const base = { ...common(entry, path), type, mimetype: known?.mimeTypes[0] ?? '' };
    if (content === undefined) {
      return { ...base, content: null, format: null };
    }
    if (type === 'notebook') {
      const notebook = this.asNotebook(notebookOf(this.text(content, path)), path);
      return { ...base, content: notebook, format: 'json' };
    }
    const format = options.format ?? known?.fileFormat;
    const text = format === 'base64' ? null : textOf(content);
    if (text === null && format === 'text') {
      this.text(content, path);
    }
    if (text === null) {
      return { ...base, content, format: 'base64' };
    }
    const shown = this.isNotebook(path) ? this.asNotebook(distrusted(text), path) : text;
    return { ...base, content: shown, format: 'text' };
  }

  private asNotebook<T>(notebook: T | null, path: string): T {
    if (notebook === null) {
      throw this.refused(
        trans.__(
          'JupyterLab cannot read %1, which is not in notebook format 4. Open the file with the editor.',
          path
        )
      );
    }
    return notebook;
  }

  private text(content: string, path: string): string {
    const text = textOf(content);
    if (text === null) {
      throw this.refused(trans.__('%1 is not UTF-8 encoded.', path));
    }
    return text;
  }

  private async ask<T>(name: string, path: string, more: Record<string, unknown> = {}): Promise<T> {
    const [cluster, there] = placeOf(path);
    try {
      return await this.model.call<T>(name, { path: there, cluster, ...more });
    } catch (error) {
      if (error instanceof SlurmError) {
        const { message, hint, detail } = error.problem;
        const text = [message, hint, detail].filter(Boolean).join('\n');
        throw new DriveError(text, { status: error.status });
      }
      throw error;
    }
  }

  private refused(message: string): DriveError {
    return new DriveError(message, { status: 400 });
  }
}

const EMPTY_NOTEBOOK = new TextEncoder().encode(
  `${JSON.stringify({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`
);

/** The cluster, and the absolute path on it. */
function placeOf(path: string): [cluster: string, path: string] {
  const at = path.indexOf('/');
  return at < 0 ? [path, '/'] : [path.slice(0, at), path.slice(at)];
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Reject names that lead outside of the folder. */
function isInside({ name }: FileEntry): boolean {
  return !name.includes('/') && !['', '.', '..'].includes(name);
}

function unused(stem: string, end: string, there: ReadonlySet<string>, from = 0): string {
  for (let number = from; ; number += 1) {
    const name = `${stem}${number === 0 ? '' : number}${end}`;
    if (!there.has(name)) {
      return name;
    }
  }
}

function onTheWay(name: string): FileEntry {
  return { name, kind: 'file', size_bytes: 0, modified_s: 0, writable: true };
}

function common(
  entry: FileEntry,
  path: string
): Pick<Contents.IModel, 'name' | 'path' | 'writable' | 'created' | 'last_modified' | 'size'> {
  const at = new Date(entry.modified_s * 1000);
  const modified = Number.isNaN(at.getTime()) ? NEVER : at.toISOString();
  return {
    name: nameOf(path),
    path,
    writable: entry.writable,
    created: modified,
    last_modified: modified,
    ...(entry.kind === 'folder' ? {} : { size: entry.size_bytes })
  };
}

function folder(
  entry: FileEntry,
  path: string,
  content: Contents.IModel[] | null
): Contents.IModel {
  const format = content === null ? null : 'json';
  return { ...common(entry, path), type: 'directory', mimetype: '', content, format };
}

function contentOf({ format, content }: Partial<Contents.IModel>): Uint8Array {
  const given: unknown = content;
  if (format === 'base64') {
    return bytesOf(given as string);
  }
  const text = typeof given === 'string' ? given : `${JSON.stringify(given ?? {}, null, 1)}\n`;
  return new TextEncoder().encode(format === 'json' || given !== undefined ? text : '');
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
