// The translations of the page's language, shared by all modules. A page never changes its language.
import { type ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

/** English until the model's plugin has set the language. This plugin starts first. */
export let trans: TranslationBundle = nullTranslator.load('jupyter_slurm');

export function speak(translator: ITranslator | null): void {
  trans = (translator ?? nullTranslator).load('jupyter_slurm');
}
