// Full date and time, for hover texts and details.
import { language } from './language';

/** Return day and time to the second, including the year. */
export function exactly(atS: number): string {
  return new Date(atS * 1000).toLocaleString(language(), {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23'
  });
}
