// The plugin of clusters' files: the drive, and a file browser for it, made when it is first asked for.
import {
  LabShell,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IFileBrowserFactory, Uploader, type FileBrowser } from '@jupyterlab/filebrowser';
import { ITranslator } from '@jupyterlab/translation';
import { folderIcon, newFolderIcon, refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import { Poll } from '@lumino/polling';
import { addCommand } from '../commands/telling';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { LaterDrive } from './later';
import { lookWhileSeen } from './looking';

const RANK = 505;
/** As JupyterLab calls it. */
const HTML_VIEWER = 'HTML Viewer';

export const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-slurm:files',
  description: 'The files of clusters in a file browser.',
  autoStart: true,
  requires: [ISlurmModel],
  optional: [ITranslator, IFileBrowserFactory],
  activate: (
    app: JupyterFrontEnd,
    model: ISlurmModel,
    translator: ITranslator | null,
    factory: IFileBrowserFactory | null
  ) => {
    const { commands, docRegistry, serviceManager, shell } = app;
    const { serverSettings } = serviceManager;
    const drive = new LaterDrive(serverSettings, async () => {
      const { ClusterDrive } = await import('./drive');
      return new ClusterDrive(model, docRegistry, serverSettings);
    });
    const { contents } = serviceManager;
    contents.addDrive(drive);
    // What the user's settings say of HTML files is meant of those on this machine. The viewer asks
    // for the address of the page as its base: of a blob, which is no base, so that it read the
    // page twice, and it shows nothing for ever where its first text comes between the two.
    docRegistry.addWidgetExtension(HTML_VIEWER, {
      createNew: (viewer, context) => {
        if (contents.driveName(context.path) === drive.name) {
          Object.assign(viewer, { trusted: false });
          Object.assign(context.urlResolver, {
            getDownloadUrl: () => Promise.resolve('about:blank')
          });
        }
      }
    });
    if (factory === null || !(shell instanceof LabShell)) {
      return;
    }
    let browser: FileBrowser | null = null;
    const made = (): FileBrowser => {
      const one = factory.createFileBrowser('jupyter-slurm-files', {
        driveName: drive.name,
        refreshInterval: Poll.NEVER,
        restore: false,
        state: null
      });
      one.title.icon = folderIcon;
      one.title.caption = trans.__('Files of clusters');
      one.node.setAttribute('role', 'region');
      one.node.setAttribute('aria-label', trans.__('Files of clusters'));
      one.toolbar.addItem(
        'new-folder',
        new ToolbarButton({
          icon: newFolderIcon,
          tooltip: trans.__('New folder'),
          onClick: () => void one.createNewDirectory()
        })
      );
      one.toolbar.addItem(
        'upload',
        new Uploader({ model: one.model, translator: translator ?? undefined })
      );
      one.toolbar.addItem(
        'refresh',
        new ToolbarButton({
          icon: refreshIcon,
          tooltip: trans.__('Look again'),
          onClick: () => void one.model.refresh()
        })
      );
      // JupyterLab (4.6) takes what a drive of others says for another folder's.
      drive.fileChanged.connect(() => void one.model.refresh());
      lookWhileSeen(one, () => one.model.refresh());
      shell.add(one, 'left', { rank: RANK, type: 'File Browser' });
      return one;
    };
    addCommand(commands, CommandIDs.browse, {
      label: trans.__('Files of clusters'),
      takes: {
        type: 'object',
        properties: {
          cluster: { type: 'string', description: "The cluster's name." },
          path: { type: 'string', description: 'An absolute path of a folder there.' }
        },
        required: ['cluster', 'path']
      },
      execute: async ({ cluster, path }) => {
        // What the browser asks for by itself asks for no login.
        await model.callLoggedIn(cluster as string, 'file_entry', { path, cluster });
        browser ??= made();
        // First, since what is done in it is done in the folder that it has come to.
        await browser.model.cd(`/${cluster as string}${path as string}`);
        shell.activateById(browser.id);
      }
    });
  }
};
