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

/** Tells that the view's file is missing, as in a page that is older than the installed package. */
function Missing({ trans }: Translated): JSX.Element {
  return (
    <p className="jp-slurm-Problem" role="status">
      {trans.__('JupyterLab could not load this view. Reload the page.')}
    </p>
  );
}
