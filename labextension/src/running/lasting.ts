// Jobs that keep a node until they are stopped, as a local kernel keeps its memory. No I/O.
import { isFinal } from '../format';
import type { Job } from '../wire';

const LASTING = new Set<string>(['lab', 'session', 'kernel']);

export function isLasting({ kind, state }: Job): boolean {
  return LASTING.has(kind) && !isFinal(state);
}
