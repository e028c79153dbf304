// What is said of a job, each sentence at the field of the option that it is about, in the user's
// language. Pure.
import { told } from '../messages';
import type { Check, Preview, Problem } from '../wire';
import { optionOf, type Field } from './form';

/** Something that is said of the job, about one field or about all of it. */
export interface Sentence {
  text: string;
  /** false: it cannot be so; null: it is good to know. */
  ok: boolean | null;
}

/** A field of the form, or what is to be run. */
export type Place = Field | 'code';

/** null: it is about no field. What has none of its own stands in `more`. */
export function fieldOf(option: string | null): Place | null {
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
 * What is wrong, at its field, and all else that is to be said. `noArray`: why this job cannot be an
 * array, in the form's words; '': it can.
 */
export function sorted(preview: Preview | null, problem: Problem | null, noArray = ''): Sorted {
  const all: (readonly [string | null, Sentence])[] = (preview?.checks ?? [])
    .filter(one => !isSaidByField(one))
    .map(one => [one.option, { text: whole(one), ok: one.ok }]);
  if (problem !== null) {
    const text = problem.option === 'array' && noArray !== '' ? noArray : told(problem);
    all.push([problem.option, { text, ok: false }]);
  }
  const byField = new Map<Place, Sentence>();
  const others: Sentence[] = [];
  for (const [option, sentence] of all) {
    const field = sentence.ok === false ? fieldOf(option) : null;
    if (field === null || byField.has(field)) {
      others.push(sentence);
    } else {
      byField.set(field, sentence);
    }
  }
  return { byField, others };
}

/** What is free in a partition stands at its field, in a word or two and with its age. */
function isSaidByField({ ok, option }: Check): boolean {
  return ok === null && option === 'partition';
}

function whole({ sentence, hint }: Check): string {
  const end = /[.!?:;。]$/.test(sentence) ? '' : '.';
  return hint ? `${sentence}${end} ${hint}` : sentence;
}
