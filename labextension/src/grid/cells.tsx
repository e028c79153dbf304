// The cells of a row. A view can add content to their text.
import type { JSX } from 'react';
import type { Shown } from './columns';

interface Props<T> {
  item: T;
  shown: readonly Shown<T>[];
  nowS: number;
  /** The content of a cell in place of its text; null to show the text. */
  content?: (id: string, text: string, first: boolean) => JSX.Element | null;
}

export function Cells<T>({ item, shown, nowS, content }: Props<T>): JSX.Element {
  return (
    <>
      {shown.map(({ column, width, grows }, number) => {
        const text = column.text(item, nowS);
        return (
          <div
            key={column.id}
            role="gridcell"
            className="jp-slurm-Cell"
            data-number={column.number}
            style={{ flexBasis: width, flexGrow: Number(grows) }}
            title={column.hint?.(item, nowS) ?? text}
          >
            {content?.(column.id, text, number === 0) ?? <bdi>{text}</bdi>}
          </div>
        );
      })}
    </>
  );
}
