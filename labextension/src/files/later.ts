// The drive's name and ids, which JupyterLab needs at its start. drive.ts does the work, and is
// loaded at the first request.
import type { Contents, ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

/** `Slurm:CLUSTER/path`. */
export const NAME = 'Slurm';

type Drive = Contents.IDrive;

export class LaterDrive implements Drive {
  readonly name = NAME;
  readonly fileChanged = new Signal<this, Contents.IChangedArgs>(this);
  isDisposed = false;
  private loaded: Promise<Drive> | null = null;

  constructor(
    readonly serverSettings: ServerConnection.ISettings,
    private readonly load: () => Promise<Drive>
  ) {}

  dispose(): void {
    this.isDisposed = true;
    Signal.clearData(this);
  }

  readonly get: Drive['get'] = async (...of) => (await this.drive()).get(...of);
  readonly getDownloadUrl: Drive['getDownloadUrl'] = async (...of) =>
    (await this.drive()).getDownloadUrl(...of);
  readonly newUntitled: Drive['newUntitled'] = async (...of) =>
    (await this.drive()).newUntitled(...of);
  readonly delete: Drive['delete'] = async (...of) => (await this.drive()).delete(...of);
  readonly rename: Drive['rename'] = async (...of) => (await this.drive()).rename(...of);
  readonly save: Drive['save'] = async (...of) => (await this.drive()).save(...of);
  readonly copy: Drive['copy'] = async (...of) => (await this.drive()).copy(...of);
  readonly createCheckpoint: Drive['createCheckpoint'] = async (...of) =>
    (await this.drive()).createCheckpoint(...of);
  readonly listCheckpoints: Drive['listCheckpoints'] = async (...of) =>
    (await this.drive()).listCheckpoints(...of);
  readonly restoreCheckpoint: Drive['restoreCheckpoint'] = async (...of) =>
    (await this.drive()).restoreCheckpoint(...of);
  readonly deleteCheckpoint: Drive['deleteCheckpoint'] = async (...of) =>
    (await this.drive()).deleteCheckpoint(...of);

  private async drive(): Promise<Drive> {
    this.loaded ??= this.load().then(drive => {
      drive.fileChanged.connect((_, change) => this.fileChanged.emit(change));
      return drive;
    });
    return this.loaded;
  }
}
