// What the agent says of a job in English, in the user's language: why it waits, what can be done,
// how it ended. Pure. What there is to translate is in sentences.ts.
import type { TranslationBundle } from '@jupyterlab/translation';
import { limits, sentences, things } from './sentences';

interface Template {
  text: string;
  pattern: RegExp;
}

/** No sentence is longer, whatever names are in it. */
const LONGEST = 1000;
/** A queue has fewer reasons than jobs; should it not, one begins anew. */
const MOST_KEPT = 5000;

const exact: ReadonlySet<string> = new Set(sentences);
const thing: ReadonlySet<string> = new Set(things);
const ofThings: ReadonlySet<string> = new Set(limits);
/** Those that say most come first: `... by %1 before it had started.`, then `... by %1.`. */
const templates: readonly Template[] = [...limits, ...sentences.filter(text => /%\d/.test(text))]
  .sort((one, other) => other.length - one.length)
  .map(text => ({ text, pattern: patternOf(text) }));
const kept = new WeakMap<TranslationBundle, Map<string, string>>();

/** `text` in the language of `trans`; as it is where it is no sentence that is known. */
export function said(text: string, trans: TranslationBundle): string {
  let known = kept.get(trans);
  if (known === undefined || known.size >= MOST_KEPT) {
    known = new Map();
    kept.set(trans, known);
  }
  const found = known.get(text) ?? (exact.has(text) ? whole : byPattern)(text, trans);
  known.set(text, found);
  return found;
}

function byPattern(text: string, trans: TranslationBundle): string {
  if (text.length > LONGEST) {
    return text;
  }
  for (const one of templates) {
    const values = one.pattern.exec(text)?.groups;
    if (values) {
      return whole(one.text, trans).replace(/%(\d)/g, (_, number: string) => {
        const value = values[`v${number}`] ?? '';
        const isThing = ofThings.has(one.text) && thing.has(value);
        return isThing || exact.has(value) ? whole(value, trans) : value;
      });
    }
  }
  return text;
}

/** The translation with its %1, %2 …, which gettext would fill. */
function whole(text: string, trans: TranslationBundle): string {
  return trans.gettext(text, '%1', '%2', '%3');
}

function patternOf(text: string): RegExp {
  const escaped = text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/%(\d)/g, '(?<v$1>.*)')}$`);
}
