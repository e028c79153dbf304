// What the agent says of a job in English, in the user's language: why it waits, what can be done,
// how it ended, what speaks against one that is not sent. Pure. What there is to translate is in
// sentences.ts.
import type { TranslationBundle } from '@jupyterlab/translation';
import { limits, phrases, sentences, things } from './sentences';
import type { Problem } from './wire';

interface Template {
  text: string;
  /** What stands before, between and after its values. */
  around: readonly string[];
  /** The numbers of its values, as they come. */
  numbers: readonly string[];
}

/** No text is longer, whatever names are in it. */
const LONGEST = 1000;
/** Of a line. */
const MOST_SENTENCES = 8;
/** A queue has fewer reasons than jobs; should it not, one begins anew. */
const MOST_KEPT = 5000;
/** Between two sentences, as far as can be told without knowing them. */
const BETWEEN = /([.?]) (?=[-A-Z`%])/g;
/** What gettext fills in: the placeholders themselves. */
const PLACES = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(number => `%${number}`);

const exact: ReadonlySet<string> = new Set([...sentences, ...phrases]);
const thing: ReadonlySet<string> = new Set(things);
const ofThings: ReadonlySet<string> = new Set(limits);
const ofSentences = templatesOf([...limits, ...sentences]);
const ofPhrases = templatesOf(phrases);
const kept = new WeakMap<TranslationBundle, Map<string, string>>();

/** `text` in the language of `trans`, line by line; a line that is not known stays as it is. */
export function said(text: string, trans: TranslationBundle): string {
  let known = kept.get(trans);
  if (known === undefined || known.size >= MOST_KEPT) {
    known = new Map();
    kept.set(trans, known);
  }
  const found = known.get(text) ?? lines(text, trans);
  known.set(text, found);
  return found;
}

/** What is wrong, and what can be done. */
export function told({ message, hint }: Problem, trans: TranslationBundle): string {
  return [message, hint ?? '']
    .map(text => said(text, trans))
    .filter(Boolean)
    .join(' ');
}

/** The same beside a button that logs in where that is what is needed: the hint names other ways. */
export function toldBeside(problem: Problem, trans: TranslationBundle): string {
  return told(needsLogin(problem) ? { ...problem, hint: null } : problem, trans);
}

export function needsLogin({ code }: Problem): boolean {
  return code === 'login-needed';
}

function lines(text: string, trans: TranslationBundle): string {
  if (text.length > LONGEST) {
    return text;
  }
  return text
    .split('\n')
    .map(line => several(line, trans) ?? line)
    .join('\n');
}

/** A line: the shortest sentences that it is made of. null: not all of it is known. */
function several(line: string, trans: TranslationBundle): string | null {
  const parts = exact.has(line) ? [line] : line.replace(BETWEEN, '$1\n').split('\n');
  if (parts.length > MOST_SENTENCES) {
    return sentence(line, trans);
  }
  // From the last on: what follows each is known when it is its turn.
  const rests: (string | null)[] = [...parts.map(() => null), ''];
  for (let from = parts.length - 1; from >= 0; from -= 1) {
    for (let to = from + 1; to <= parts.length && rests[from] === null; to += 1) {
      const rest = rests[to] ?? null;
      const first = rest === null ? null : sentence(parts.slice(from, to).join(' '), trans);
      rests[from] = first === null ? null : [first, rest].filter(Boolean).join(' ');
    }
  }
  return rests[0] ?? null;
}

function sentence(text: string, trans: TranslationBundle): string | null {
  return exact.has(text) ? whole(text, trans) : byTemplate(text, ofSentences, trans);
}

function byTemplate(
  text: string,
  templates: readonly Template[],
  trans: TranslationBundle
): string | null {
  for (const template of templates) {
    const values = valuesOf(text, template);
    if (values) {
      return whole(template.text, trans).replace(/%(\d)/g, (_, number: string) => {
        const value = values.get(number) ?? '';
        const isThing = ofThings.has(template.text) && thing.has(value);
        return isThing ? whole(value, trans) : within(value, trans);
      });
    }
  }
  return null;
}

/** What stands in a sentence. Names have no blanks, and are nobody's to translate. */
function within(value: string, trans: TranslationBundle): string {
  if (!value.includes(' ')) {
    return value;
  }
  return several(value, trans) ?? byTemplate(value, ofPhrases, trans) ?? value;
}

/** The translation with its %1, %2 …, which gettext would fill. */
function whole(text: string, trans: TranslationBundle): string {
  return trans.gettext(text, ...PLACES);
}

/** Those that say most come first: `... by %1 before it had started.`, then `... by %1.`. */
function templatesOf(texts: readonly string[]): readonly Template[] {
  return texts
    .filter(text => /%\d/.test(text))
    .sort((one, other) => other.length - one.length)
    .map(text => ({
      text,
      around: text.split(/%\d/),
      numbers: [...text.matchAll(/%(\d)/g)].map(([, number]) => number ?? '')
    }));
}

/** By number; each as short as can be, so that no text is searched twice. null: it is no such text. */
function valuesOf(text: string, { around, numbers }: Template): Map<string, string> | null {
  const first = around[0] ?? '';
  const last = around[around.length - 1] ?? '';
  const end = text.length - last.length;
  if (end < first.length || !text.startsWith(first) || !text.endsWith(last)) {
    return null;
  }
  const values = new Map<string, string>();
  let at = first.length;
  for (const [index, number] of numbers.entries()) {
    const next = around[index + 1] ?? '';
    const to = index === numbers.length - 1 ? end : text.indexOf(next, at);
    if (to < at || to > end) {
      return null;
    }
    values.set(number, text.slice(at, to));
    at = to + next.length;
  }
  return values;
}
