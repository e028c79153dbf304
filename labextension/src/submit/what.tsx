// The top of the form: the code, file or cell to run.
import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { JSX } from 'react';
import { Editor } from '../editor';
import { visible } from '../format';
import { trans } from '../translation';
import { isScript } from './form';
import { Told } from './inputs';
import type { Sentence } from './sentences';
import { pathOf, type Source } from './source';

interface Props {
  source: Source;
  code: string;
  /** An error or warning about the code, file or cell. */
  said: Sentence | undefined;
  editors: IEditorServices;
  setCode: (code: string) => void;
}

export function What({ source, code, said, editors, setCode }: Props): JSX.Element {
  if (source.kind === 'code') {
    return (
      <div className="jp-slurm-Field" data-code data-wrong={said?.ok === false}>
        <span>{trans.__('Code')}</span>
        <Editor
          text={code}
          language={isScript(code) ? 'shell' : 'python'}
          label={trans.__('Code')}
          editors={editors}
          change={setCode}
        />
        <div className="jp-slurm-FieldHint">
          {said === undefined ? (
            trans.__('Python, or a script that begins with #!')
          ) : (
            <Told said={said} />
          )}
        </div>
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
        ? trans.__('Runs all cells in order. The executed copy is saved next to the notebook.')
        : trans.__('Runs the file as it is when you submit it.');
    case 'lab':
      return trans.__(
        'Starts JupyterLab on a node (in the image, if any) and opens it in a new tab when ready.'
      );
    case 'kernel':
      return trans.__(
        'Your notebooks stay on this machine. Their cells run in a job on the cluster. The kernel appears in every Jupyter client on this machine. The image needs ipykernel.'
      );
    case 'cell':
      return trans.__(
        'Adds the options to the cell and runs the cell. The output appears below the cell.'
      );
  }
}
