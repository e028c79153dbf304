// The newest question of somebody who types: asked after a pause, one at a time; an answer that was
// overtaken is dropped. No view, no calls of its own.
import { useEffect, useRef, useState } from 'react';

/** Somebody who types is not asked after at every key. */
export const PAUSE_MS = 400;

export class Latest<Q, A> {
  private wanted: { question: Q } | null = null;
  private timer: number | undefined;
  private asking = false;

  constructor(
    /** Never rejects. */
    private readonly ask: (question: Q) => Promise<A>,
    private readonly tell: (answer: A) => void
  ) {}

  want(question: Q): void {
    this.wanted = { question };
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.next(), PAUSE_MS);
  }

  /** Nobody waits for the answer any more. */
  dispose(): void {
    this.wanted = null;
    window.clearTimeout(this.timer);
  }

  private async next(): Promise<void> {
    const { wanted } = this;
    if (wanted === null || this.asking) {
      return;
    }
    this.asking = true;
    const answer = await this.ask(wanted.question);
    this.asking = false;
    if (this.wanted === wanted) {
      this.wanted = null;
      this.tell(answer);
    } else if (this.wanted !== null) {
      this.want(this.wanted.question);
    }
  }
}

/**
 * Returns the newest answer to a question, or null before the first. The last answer stays until the
 * next one comes. A change of `again` asks once more; a null question asks nothing.
 */
export function useLatest<A>(
  /** Never rejects. */
  ask: (question: string) => Promise<A>,
  question: string | null,
  again = ''
): A | null {
  const [answer, setAnswer] = useState<A | null>(null);
  const latest = useRef<Latest<string, A> | null>(null);
  useEffect(() => {
    const made = new Latest(ask, (found: A) => setAnswer(found));
    latest.current = made;
    return () => made.dispose();
  }, [ask]);
  useEffect(() => {
    if (question !== null) {
      latest.current?.want(question);
    }
  }, [ask, question, again]);
  return answer;
}
