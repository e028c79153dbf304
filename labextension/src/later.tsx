// Views whose code the browser loads when they are first shown, so that a page starts without it.
import type { TranslationBundle } from '@jupyterlab/translation';
import { createElement, lazy, Suspense, type ComponentType, type JSX } from 'react';

interface Translated {
  trans: TranslationBundle;
}

export function later<P extends Translated>(
  load: () => Promise<ComponentType<P>>
): (props: P) => JSX.Element {
  const View = lazy(async () => ({ default: await load().catch(() => Missing) }));
  return function Later(props: P): JSX.Element {
    return <Suspense fallback={null}>{createElement<P>(View, props)}</Suspense>;
  };
}

/** Tells whether a file could not be loaded, as in a page older than the installed package. */
export function isOfFile(error: unknown): boolean {
  return error instanceof Error && error.name === 'ChunkLoadError'; // webpack's name
}

export function missing(trans: TranslationBundle): string {
  return trans.__('JupyterLab could not load this view. Reload the page.');
}

function Missing({ trans }: Translated): JSX.Element {
  return (
    <p className="jp-slurm-Problem" role="status">
      {missing(trans)}
    </p>
  );
}
