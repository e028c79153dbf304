// What a job runs: the user's code and the batch script in JupyterLab's own editor, to be read and
// copied, and the command that sent it.
import { CodeEditor, type IEditorServices } from '@jupyterlab/codeeditor';
import { useEffect, useRef, type JSX } from 'react';
import { quoted } from '../submit/words';
import { trans } from '../translation';
import type { JobDetails } from '../wire';
import { CopyButton } from '../parts';
import { languageOf } from './words';

interface Props {
  details: JobDetails;
  editors: IEditorServices;
}

export function ScriptPane({ details, editors }: Props): JSX.Element {
  const { code, script, command, job } = details;
  const parts = [
    job.kind === 'script' || code === script
      ? null
      : { title: trans.__('Code'), text: code, language: languageOf(code ?? '', job.kind) },
    { title: trans.__('Batch script'), text: script, language: 'shell' as const },
    {
      title: trans.__('Command'),
      text: command.length === 0 ? null : command.map(quoted).join(' '),
      language: 'shell' as const
    }
  ].filter(part => part !== null);
  const there = parts.filter(({ text }) => text !== null);
  return (
    <>
      {there.length > 0 || details.problem !== null ? null : (
        <p className="jp-slurm-Empty">
          {trans.__("Neither its folder on the cluster nor Slurm's copy of its script is there.")}
        </p>
      )}
      {there.map(({ title, text, language }) => (
        <section key={title} aria-label={title}>
          <h3>
            {title} <CopyButton text={() => text ?? ''} what={title} />
          </h3>
          <Code text={text ?? ''} language={language} label={title} editors={editors} />
        </section>
      ))}
    </>
  );
}

interface CodeProps {
  text: string;
  language: 'python' | 'shell' | 'text';
  label: string;
  editors: IEditorServices;
}

function Code({ text, language, label, editors }: CodeProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (host.current === null) {
      return undefined;
    }
    const mimeType =
      language === 'text'
        ? 'text/plain'
        : editors.mimeTypeService.getMimeTypeByLanguage({ name: language });
    const model = new CodeEditor.Model({ mimeType });
    model.sharedModel.setSource(text);
    const editor = editors.factoryService.newInlineEditor({
      host: host.current,
      model,
      config: { readOnly: true, lineNumbers: text.includes('\n'), lineWrap: true }
    });
    const inside = host.current.querySelector('[contenteditable], [role="textbox"]');
    inside?.setAttribute('aria-label', label);
    inside?.setAttribute('aria-readonly', 'true');
    return () => {
      editor.dispose();
      model.dispose();
    };
  }, [text, language, label, editors]);
  return <div className="jp-slurm-JobCode jp-Editor" ref={host} />;
}
