// Sentences with commands, names and values in them.
import type { JSX } from 'react';

/** Text in which words in backticks are code that can be copied. */
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
