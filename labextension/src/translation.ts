// The texts of the page's language: one bundle for all of us. A page has one language from its
// beginning to its end.
import { type ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

/** English until the model's plugin, before which no other begins, has said otherwise. */
export let trans: TranslationBundle = nullTranslator.load('jupyter_slurm');

export function speak(translator: ITranslator | null): void {
  trans = (translator ?? nullTranslator).load('jupyter_slurm');
}
