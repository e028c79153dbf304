// The plugin of clusters' files: a drive, and its file browser, which opens on demand.
import {
  LabShell,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IFileBrowserFactory, Uploader, type FileBrowser } from '@jupyterlab/filebrowser';
import { ITranslator } from '@jupyterlab/translation';
import { newFolderIcon, refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import { Poll } from '@lumino/polling';
import { addCommand } from '../commands/telling';
import { filesIcon } from '../icons';
import { CommandIDs, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import { ClusterDrive } from './drive';
import { lookWhileSeen } from './looking';

const RANK = 505;
/** The arguments of JupyterLab's call. */
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
    const drive = new ClusterDrive(model, docRegistry, serverSettings);
    const { contents } = serviceManager;
    contents.addDrive(drive);
    // Settings that trust HTML files are meant for local files. The viewer needs a base URL. With a
    // blob, it would read the page twice, and may show nothing.
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
      one.title.icon = filesIcon;
      one.title.caption = trans.__('Cluster files');
      one.node.setAttribute('role', 'region');
      one.node.setAttribute('aria-label', trans.__('Cluster files'));
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
          tooltip: trans.__('Refresh'),
          onClick: () => void one.model.refresh()
        })
      );
      // JupyterLab 4.6 does not refresh the browser, because it attributes a drive's changes to
      // another folder.
      drive.fileChanged.connect(() => void one.model.refresh());
      lookWhileSeen(one, () => one.model.refresh());
      shell.add(one, 'left', { rank: RANK, type: 'File Browser' });
      return one;
    };
    addCommand(commands, CommandIDs.browse, {
      label: trans.__('Cluster files'),
      takes: {
        type: 'object',
        properties: {
          cluster: { type: 'string', description: "The cluster's name." },
          path: { type: 'string', description: 'The absolute path of a folder on the cluster.' }
        },
        required: ['cluster', 'path']
      },
      execute: async ({ cluster, path }) => {
        // The file browser itself cannot ask for a login.
        await model.callLoggedIn(cluster as string, 'file_entry', { path, cluster });
        browser ??= made();
        await browser.model.cd(`/${cluster as string}${path as string}`);
        shell.activateById(browser.id);
      }
    });
  }
};
