// The code, the batch script and the sbatch command of a job, in JupyterLab's editor.
import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { JSX } from 'react';
import { Editor } from '../editor';
import { CopyButton } from '../parts';
import { quoted } from '../submit/words';
import { trans } from '../translation';
import type { JobDetails } from '../wire';
import { languageOf } from './words';

interface Props {
  details: JobDetails;
  editors: IEditorServices;
}

export function ScriptPane({ details, editors }: Props): JSX.Element {
  const { code, script, command, job } = details;
  const hasCode = code !== null && job.kind !== 'script' && code !== script;
  const parts = [
    ...(hasCode
      ? [{ title: trans.__('Code'), text: code, language: languageOf(code, job.kind) }]
      : []),
    { title: trans.__('Batch script'), text: script ?? '', language: 'shell' as const },
    {
      title: trans.__('sbatch command'),
      text: command.map(quoted).join(' '),
      language: 'shell' as const
    }
  ].filter(({ text }) => text !== '');
  return (
    <>
      {parts.length > 0 || details.problem !== null ? null : (
        <p className="jp-slurm-Empty">
          {trans.__('The script of this job is no longer available.')}
        </p>
      )}
      {parts.map(({ title, text, language }, at) => (
        <section key={title} aria-label={title}>
          <details open={at === 0}>
            <summary>{title}</summary>
            <CopyButton text={() => text} what={title} />
            <Editor {...{ text, language, editors }} label={title} />
          </details>
        </section>
      ))}
    </>
  );
}
