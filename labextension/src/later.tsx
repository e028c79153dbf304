// Code that is loaded when it is first needed: a view when it is shown, and code for a kind of job
// with the first such job. A page starts without it.
import { createElement, lazy, Suspense, type ComponentType, type JSX } from 'react';
import type { ISlurmModel } from './tokens';
import { trans } from './translation';
import type { Job } from './wire';

export function later<P extends object>(
  load: () => Promise<ComponentType<P>>
): (props: P) => JSX.Element {
  const View = lazy(async () => ({ default: await load().catch(() => Missing) }));
  return function Later(props: P): JSX.Element {
    return <Suspense fallback={null}>{createElement<P>(View, props)}</Suspense>;
  };
}

/** Call `begin` once, as soon as the model has a job for which `such` is true. */
export function onceThereIs(
  model: ISlurmModel,
  such: (job: Job) => boolean,
  begin: () => Promise<unknown>
): void {
  const look = (): void => {
    for (const job of model.jobs.values()) {
      if (such(job)) {
        model.changed.disconnect(look);
        void begin();
        return;
      }
    }
  };
  model.changed.connect(look);
}

/** Return whether a file could not be loaded, as in a page older than the installed package. */
export function isOfFile(error: unknown): boolean {
  return error instanceof Error && error.name === 'ChunkLoadError'; // webpack's name for this error
}

export function missing(): string {
  return trans.__('JupyterLab could not load this view. Reload the page.');
}

function Missing(): JSX.Element {
  return (
    <p className="jp-slurm-Problem" role="status">
      {missing()}
    </p>
  );
}
