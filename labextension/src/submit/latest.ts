// Asks a question about what is typed: after a pause, one at a time, and only the latest counts.
import { useEffect, useRef, useState } from 'react';

export const PAUSE_MS = 400;

/**
 * Return the latest answer, null before the first. The old answer stays until the next arrives. A
 * change of `again` repeats the question; a null question asks nothing. `ask` never rejects.
 */
export function useLatest<A>(
  ask: (question: string) => Promise<A>,
  question: string | null,
  again = ''
): A | null {
  const [answer, setAnswer] = useState<A | null>(null);
  const asking = useRef(Promise.resolve());
  useEffect(() => {
    if (question === null) {
      return undefined;
    }
    let isLatest = true;
    const take = (found: A): void => {
      if (isLatest) {
        setAnswer(found);
      }
    };
    const next = async (): Promise<void> => {
      if (isLatest) {
        take(await ask(question));
      }
    };
    const timer = window.setTimeout(() => {
      asking.current = asking.current.then(next);
    }, PAUSE_MS);
    return () => {
      isLatest = false;
      window.clearTimeout(timer);
    };
  }, [ask, question, again]);
  return answer;
}
