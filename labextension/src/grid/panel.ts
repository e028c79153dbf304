// Panels about a cluster in the main area. A command opens a panel per cluster, and the layout
// restores it. Other modules provide the content.
import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { ComponentType } from 'react';
import { show } from '../commands/show';
import { clusterToShow } from '../commands/targets';
import { addCommand } from '../commands/telling';
import { ISlurmModel } from '../tokens';
import type { Called, ClusterPanel, PanelProps } from './cluster_panel';

interface Kind<Look> extends Called {
  command: string;
  caption: string;
  load: () => Promise<Shown<Look>>;
}

/** The code of a panel, which is loaded when the first one opens. */
interface Shown<Look> {
  View: ComponentType<PanelProps<Look>>;
  /** The saved sorting and filters; undefined for the defaults. */
  lookOf: (remembered: unknown) => Look;
}

export function panelPlugin<Look extends ReadonlyPartialJSONObject>(
  id: string,
  description: string,
  kindOf: () => Kind<Look>
): JupyterFrontEndPlugin<void> {
  return {
    id,
    description,
    autoStart: true,
    requires: [ISlurmModel],
    optional: [ILayoutRestorer, IStateDB],
    activate: (
      app: JupyterFrontEnd,
      model: ISlurmModel,
      restorer: ILayoutRestorer | null,
      state: IStateDB | null
    ) => {
      const kind = kindOf();
      const tracker = addPanel(app, model, kind, state);
      void restorer?.restore(tracker, {
        command: kind.command,
        args: widget => ({ cluster: widget.content.cluster }),
        name: widget => widget.content.cluster
      });
    }
  };
}

type Tracker<Look> = WidgetTracker<MainAreaWidget<ClusterPanel<Look>>>;

/** The command that opens the panel. */
function addPanel<Look extends ReadonlyPartialJSONObject>(
  app: JupyterFrontEnd,
  model: ISlurmModel,
  kind: Kind<Look>,
  state: IStateDB | null
): Tracker<Look> {
  const { command, name, label, caption, icon } = kind;
  const tracker: Tracker<Look> = new WidgetTracker({ namespace: `slurm-${name}` });
  const key = `jupyter-slurm:${name}-look`;
  let look: Look | undefined;
  addCommand(app.commands, command, {
    label,
    caption,
    icon,
    takes: {
      type: 'object',
      properties: {
        cluster: { type: 'string', description: 'The cluster. The default cluster if missing.' }
      }
    },
    execute: async args => {
      const [{ View, lookOf }, { ClusterPanel }] = await Promise.all([
        kind.load(),
        import('./cluster_panel')
      ]);
      look ??= lookOf(await state?.fetch(key));
      const remember = (next: Look): void => {
        look = next;
        void state?.save(key, next);
      };
      const named = typeof args.cluster === 'string' ? args.cluster : '';
      const cluster = named === '' ? await clusterToShow(model) : named;
      let panel = tracker.find(widget => widget.content.cluster === cluster);
      if (panel === undefined) {
        const props = { cluster, model, commands: app.commands, look, remember };
        const made = new MainAreaWidget({ content: new ClusterPanel(kind, View, props) });
        made.content.named.connect(() => void tracker.save(made));
        await tracker.add(made);
        panel = made;
      }
      show(app, panel);
    }
  });
  return tracker;
}
