// Requests about typed input. They wait for a pause and run one at a time, and only the latest
// answer counts.
import { useEffect, useRef, useState } from 'react';

export const PAUSE_MS = 400;

/**
 * Return the latest answer, null before the first. The old answer stays until the next one arrives.
 * A change of `again` repeats the question. A null question sends no request. `ask` never rejects.
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
