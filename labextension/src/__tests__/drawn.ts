import { MessageLoop } from '@lumino/messaging';
import { act } from 'react';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

/** Draws what widgets have been asked to draw, after `first`; takes as long as that takes. */
export async function drawn(first?: () => void): Promise<void> {
  await act(async () => {
    first?.();
    await Promise.resolve();
    MessageLoop.flush();
  });
}
