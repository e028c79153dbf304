// The top of the form: what is to be run.
import type { JSX } from 'react';
import { visible } from '../format';
import { trans } from '../translation';
import { Lines, Told } from './inputs';
import type { Sentence } from './sentences';
import type { Source } from './source';

interface WhatProps {
  source: Source;
  code: string;
  /** What is wrong with it. */
  said: Sentence | undefined;
  setCode: (code: string) => void;
}

export function What({ source, code, said, setCode }: WhatProps): JSX.Element {
  if (source.kind === 'file') {
    const note = source.path.endsWith('.ipynb')
      ? trans.__('Runs from top to bottom; the executed copy is put beside it when the job ends.')
      : trans.__('Runs where it lies, as it is when it is submitted.');
    return <Named path={source.path} note={note} said={said} />;
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
      <Named
        path={source.notebook}
        note={note}
        said={said}
        label={trans.__('The cell')}
        text={source.body()}
      />
    );
  }
  return <CodeField code={code} said={said} setCode={setCode} />;
}

function Named({
  path,
  note,
  said,
  label,
  text
}: {
  path: string;
  note: string;
  said: Sentence | undefined;
  label?: string;
  text?: string;
}): JSX.Element {
  return (
    <div className="jp-slurm-What" data-wrong={said !== undefined}>
      <bdi className="jp-slurm-Path" title={visible(path)}>
        {visible(path.split('/').at(-1) ?? path)}
      </bdi>
      <p className="jp-slurm-Quiet">{note}</p>
      {text === undefined ? null : (
        <pre className="jp-slurm-Code" tabIndex={0} aria-label={label}>
          {text}
        </pre>
      )}
      {said === undefined ? null : (
        <p className="jp-slurm-FieldHint" role="status">
          <Told said={said} />
        </p>
      )}
    </div>
  );
}

function CodeField({ code, said, setCode }: Omit<WhatProps, 'source'>): JSX.Element {
  return (
    <div data-code>
      <Lines
        label={trans.__('Code')}
        hint={trans.__('Python, or a script that begins with #!')}
        rows={8}
        value={code}
        said={said}
        change={setCode}
      />
    </div>
  );
}
