// Why a terminal has ended, in words; the job's end is waited for, as it comes by another way.
import { isFinal, stateWord, visible } from '../format';
import { said } from '../messages';
import type { ISlurmModel } from '../tokens';
import { trans } from '../translation';
import type { Job } from '../wire';
import type { End } from './connection';

/** So long it may take to hear that a job has ended whose terminal has. */
const END_MS = 10_000;

/** Lines without control characters. */
export async function endWords(
  end: End,
  id: string,
  model: ISlurmModel,
  patienceMs = END_MS
): Promise<string[]> {
  switch (end.how) {
    case 'exited':
      return [];
    case 'taken':
      return [trans.__('Another terminal has taken this one over.')];
    case 'server-lost':
      return [trans.__('The connection to Jupyter is lost, and the terminal with it.')];
    case 'problem': {
      const { message, hint, detail } = end.problem;
      const lines = [said(message), hint === null ? '' : said(hint), detail ?? ''];
      return lines.flatMap(line => line.split('\n').map(visible)).filter(line => line !== '');
    }
    case 'lost': {
      const job = await settled(model, id, patienceMs);
      if (job === undefined || !isFinal(job.state)) {
        return [trans.__('The terminal is lost: nothing comes from there any more.')];
      }
      return [
        job.why === null
          ? trans.__('The job has ended: %1.', stateWord(job.state))
          : trans.__('The job has ended. %1', visible(said(job.why)))
      ];
    }
  }
}

/** The job when news of its end has come, or as it is when none does. */
function settled(model: ISlurmModel, id: string, patienceMs: number): Promise<Job | undefined> {
  return new Promise(resolve => {
    const look = (): void => {
      const job = model.jobs.get(id);
      if (job !== undefined && isFinal(job.state)) {
        give();
      }
    };
    const give = (): void => {
      window.clearTimeout(timer);
      model.changed.disconnect(look);
      resolve(model.jobs.get(id));
    };
    const timer = window.setTimeout(give, patienceMs);
    model.changed.connect(look);
    look();
  });
}
