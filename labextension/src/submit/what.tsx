// The top of the form: what is to be run.
import type { TranslationBundle } from '@jupyterlab/translation';
import { useId, type JSX } from 'react';
import { visible } from '../format';
import type { Source } from './source';

interface WhatProps {
  source: Source;
  code: string;
  setCode: (code: string) => void;
  trans: TranslationBundle;
}

export function What({ source, code, setCode, trans }: WhatProps): JSX.Element {
  if (source.kind === 'file') {
    const note = source.path.endsWith('.ipynb')
      ? trans.__('Runs from top to bottom; the executed copy is put beside it when the job ends.')
      : trans.__('Runs where it lies, as it is when it is submitted.');
    return <Named path={source.path} note={note} />;
  }
  if (source.kind === 'lab') {
    return (
      <p className="jp-slurm-Quiet">
        {trans.__(
          'JupyterLab runs on the node, in the image if one is named, and opens in a tab as soon as it is ready.'
        )}
      </p>
    );
  }
  if (source.kind === 'kernel') {
    return (
      <p className="jp-slurm-Quiet">
        {trans.__(
          'Notebooks stay here; with this kernel their cells run in a job of their own. It can be picked in every client of this Jupyter. The image needs ipykernel.'
        )}
      </p>
    );
  }
  if (source.kind === 'cell') {
    const note = trans.__(
      'The options are put on top of the cell, and the cell is run: its output comes under it.'
    );
    return (
      <Named path={source.notebook} note={note} label={trans.__('The cell')} text={source.body()} />
    );
  }
  return <CodeField code={code} setCode={setCode} trans={trans} />;
}

function Named({
  path,
  note,
  label,
  text
}: {
  path: string;
  note: string;
  label?: string;
  text?: string;
}): JSX.Element {
  return (
    <div className="jp-slurm-What">
      <bdi className="jp-slurm-Path" title={visible(path)}>
        {visible(path.split('/').at(-1) ?? path)}
      </bdi>
      <p className="jp-slurm-Quiet">{note}</p>
      {text === undefined ? null : (
        <pre className="jp-slurm-Code" tabIndex={0} aria-label={label}>
          {text}
        </pre>
      )}
    </div>
  );
}

function CodeField({ code, setCode, trans }: Omit<WhatProps, 'source'>): JSX.Element {
  const id = useId();
  return (
    <div className="jp-slurm-Field" data-code>
      <label htmlFor={id}>{trans.__('Code')}</label>
      <textarea
        id={id}
        rows={8}
        spellCheck={false}
        value={code}
        aria-describedby={`${id}told`}
        onChange={event => {
          setCode(event.currentTarget.value);
        }}
      />
      <div id={`${id}told`} className="jp-slurm-FieldHint">
        {trans.__('Python, or a script that begins with #!')}
      </div>
    </div>
  );
}
