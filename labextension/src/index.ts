// The list of plugins.
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { plugin as card } from './card/plugin';
import { plugin as commands } from './commands/plugin';
import { plugin as files } from './files/plugin';
import { plugin as job } from './job/plugin';
import { plugin as kernels } from './kernels/plugin';
import { plugin as labs } from './labs/plugin';
import { plugin as model } from './model/plugin';
import { plugin as nodes } from './nodes/plugin';
import { plugin as queue } from './queue/plugin';
import { plugin as running } from './running/plugin';
import { plugin as sidebar } from './sidebar/plugin';
import { plugin as status } from './status/plugin';
import { plugin as submit } from './submit/plugin';
import { plugin as terminals } from './terminals/plugin';
import { plugin as welcome } from './welcome/plugin';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  model,
  commands,
  sidebar,
  queue,
  nodes,
  job,
  card,
  submit,
  labs,
  terminals,
  files,
  kernels,
  running,
  status,
  welcome
];

export default plugins;
