import { MessageLoop } from '@lumino/messaging';
import { act } from 'react';

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

/** Call `first`, and wait until all widgets are drawn. */
export async function drawn(first?: () => void): Promise<void> {
  await act(async () => {
    first?.();
    await Promise.resolve();
    MessageLoop.flush();
  });
}
