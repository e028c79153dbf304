// The top of the form: what is to be run.
import type { JSX } from 'react';
import { visible } from '../format';
import { trans } from '../translation';
import { Lines, Told } from './inputs';
import type { Sentence } from './sentences';
import { pathOf, type Source } from './source';

interface Props {
  source: Source;
  code: string;
  /** An error or warning about it. */
  said: Sentence | undefined;
  setCode: (code: string) => void;
}

export function What({ source, code, said, setCode }: Props): JSX.Element {
  if (source.kind === 'code') {
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
  const path = pathOf(source);
  const note = <p className="jp-slurm-Quiet">{noteOf(source)}</p>;
  if (path === '') {
    return note;
  }
  return (
    <div className="jp-slurm-What" data-wrong={said?.ok === false}>
      <bdi className="jp-slurm-Path" title={visible(path)}>
        {visible(path.split('/').at(-1) ?? path)}
      </bdi>
      {note}
      {source.kind === 'cell' ? (
        <pre className="jp-slurm-Code" tabIndex={0} aria-label={trans.__('The cell')}>
          {source.body()}
        </pre>
      ) : null}
      {said === undefined ? null : (
        <p className="jp-slurm-FieldHint" role="status">
          <Told said={said} />
        </p>
      )}
    </div>
  );
}

function noteOf(source: Exclude<Source, { kind: 'code' }>): string {
  switch (source.kind) {
    case 'file':
      return source.path.endsWith('.ipynb')
        ? trans.__('Runs from top to bottom; the executed copy is put beside it when the job ends.')
        : trans.__('Runs where it lies, as it is when it is submitted.');
    case 'lab':
      return trans.__(
        'JupyterLab runs on the node, in the image if one is named, and opens in a tab as soon as it is ready.'
      );
    case 'kernel':
      return trans.__(
        'Notebooks stay here; with this kernel their cells run in a job of their own. It can be picked in every client of this Jupyter. The image needs ipykernel.'
      );
    case 'cell':
      return trans.__(
        'The options are put on top of the cell, and the cell is run: its output comes under it.'
      );
  }
}
