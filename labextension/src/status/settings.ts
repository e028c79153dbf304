// The settings in schema/plugin.json, and the translation of their page.
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { trans } from '../translation';

export const SETTINGS = 'jupyter-slurm:plugin';

export interface NotifySettings {
  start: boolean;
  end: 'always' | 'failed' | 'never';
  /** Kinds of jobs without notifications. */
  mutedKinds: ReadonlySet<string>;
  /** True to show notifications only in the list, not over the page. */
  quiet: boolean;
  /** True to notify also by the browser while the page is hidden. */
  browser: boolean;
}

export function notifySettings(values: ReadonlyPartialJSONObject): NotifySettings {
  const end = values.notifyEnd;
  return {
    start: values.notifyStart !== false,
    end: end === 'failed' || end === 'never' ? end : 'always',
    mutedKinds: new Set(Array.isArray(values.mutedKinds) ? values.mutedKinds.map(String) : []),
    quiet: values.quiet === true,
    browser: values.browserNotifications === true
  };
}

/**
 * Translate the settings' page. JupyterLab's server translates schemas only with the catalogues of
 * language packs (jupyterlab_server 2.28, `TranslationBundle.update_locale`).
 */
export function translateSchema(registry: ISettingRegistry): void {
  registry.transform(SETTINGS, {
    fetch: plugin => ({ ...plugin, schema: translated(plugin.schema) })
  });
}

const TEXTS = new Set(['title', 'description', 'jupyter.lab.setting-icon-label']);

/** Return a schema with its titles and descriptions in the user's language. */
export function translated<T>(schema: T): T {
  if (Array.isArray(schema)) {
    return schema.map((one: unknown) => translated(one)) as T;
  }
  if (typeof schema !== 'object' || schema === null) {
    return schema;
  }
  const entries = Object.entries(schema).map(([key, value]: [string, unknown]) => [
    key,
    typeof value === 'string' && TEXTS.has(key) ? trans.__(value) : translated(value)
  ]);
  return Object.fromEntries(entries) as T;
}
