// The errors and warnings about a job, each at the field of its option. No I/O.
import { told } from '../messages';
import type { Check, Preview, Problem } from '../wire';
import { optionOf, type Field } from './form';

/** An error or warning about one field or the whole job. */
export interface Sentence {
  text: string;
  /** The kind: false for an error, null for a warning. */
  ok: boolean | null;
}

/** A field of the form, or the code. */
export type Place = Field | 'code';

/** Return the option's field, `more` if the option lacks a field, or null without an option. */
function fieldOf(option: string | null): Place | null {
  if (option === null || option === 'code') {
    return option;
  }
  return optionOf(`--${option}`)?.name ?? 'more';
}

export interface Sorted {
  byField: ReadonlyMap<Place, Sentence>;
  others: readonly Sentence[];
}

/**
 * Sort errors and warnings by field. `noArray` is the reason why this job cannot be an array, in
 * the form's words; '' if it can.
 */
export function sorted(preview: Preview | null, problem: Problem | null, noArray = ''): Sorted {
  const all: (readonly [string | null, Sentence])[] = (preview?.checks ?? []).map(one => [
    one.option,
    { text: whole(one), ok: one.ok }
  ]);
  if (problem !== null) {
    const text = problem.option === 'array' && noArray !== '' ? noArray : told(problem);
    all.push([problem.option, { text, ok: false }]);
  }
  const byField = new Map<Place, Sentence>();
  const others: Sentence[] = [];
  // An error takes precedence over a warning at its field.
  const errors = all.filter(([, one]) => one.ok === false);
  const warnings = all.filter(([, one]) => one.ok !== false);
  for (const [option, sentence] of [...errors, ...warnings]) {
    const field = fieldOf(option);
    if (field === null || byField.has(field)) {
      others.push(sentence);
    } else {
      byField.set(field, sentence);
    }
  }
  return { byField, others };
}

function whole({ sentence, hint }: Check): string {
  const end = /[.!?:;。]$/.test(sentence) ? '' : '.';
  return hint ? `${sentence}${end} ${hint}` : sentence;
}
