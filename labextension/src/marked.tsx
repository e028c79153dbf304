// Sentences with commands, names and values in them.
import type { JSX } from 'react';

/** What stands in backticks is there to be copied. */
export function Marked({ text }: { text: string }): JSX.Element {
  const pieces = text.split('`');
  return (
    <span>
      {pieces.map((piece, at) =>
        at % 2 === 1 && at < pieces.length - 1 ? <code key={at}>{piece}</code> : piece
      )}
    </span>
  );
}
