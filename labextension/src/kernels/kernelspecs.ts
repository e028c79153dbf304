// The kernelspecs of remote kernels: made, listed and removed by the server, on whose machine they
// lie. JupyterLab is told, so that launcher and picker have them at once.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { visible } from '../format';
import type { INotifier, ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { RemoteKernel } from '../wire';

interface Kernels {
  kernels: RemoteKernel[];
}

export async function listedKernels(model: ISlurmModel): Promise<RemoteKernel[]> {
  return (await model.call<Kernels>('kernels')).kernels;
}

/** `line`: the words after `jupyter slurm kernel add`. Rejects: there is no such kernel then. */
export async function addKernel(
  app: JupyterFrontEnd,
  model: ISlurmModel,
  notifier: INotifier | null,
  line: string
): Promise<void> {
  const { name, display_name: title } = await model.call<RemoteKernel>('kernel_add', { line });
  await app.serviceManager.kernelspecs.refreshSpecs();
  const command = 'notebook:create-new';
  const lead = { label: trans.__('New notebook'), command, args: { kernelName: name } };
  const told = trans.__('Kernel "%1" is ready', visible(title));
  notifier?.say(told, app.commands.hasCommand(command) ? lead : null);
}

/** Those that are left. */
export async function removeKernel(
  app: JupyterFrontEnd,
  model: ISlurmModel,
  name: string
): Promise<RemoteKernel[]> {
  const { kernels } = await model.call<Kernels>('kernel_remove', { name });
  await app.serviceManager.kernelspecs.refreshSpecs();
  return kernels;
}
