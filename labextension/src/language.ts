// Times and numbers in the page's language.

/**
 * Return the page's language; undefined if the page names none. The browser's language then
 * applies.
 */
export function language(): string | undefined {
  return document.documentElement.lang || undefined;
}

/** Format a number: `4,900`. */
export function numeral(count: number): string {
  return count.toLocaleString(language());
}

/** Format a number with this many decimals. */
export function decimal(value: number, digits = 1): string {
  const exactly = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString(language(), exactly);
}

const UNITS = ['d', 'h', 'min', 's'] as const;
const JAPANESE_UNITS = ['日', '時間', '分', '秒'] as const;

/** The units of day, hour, minute and second. All our languages except Japanese share them. */
export function unitsOfTime(): typeof UNITS | typeof JAPANESE_UNITS {
  return language()?.startsWith('ja') ? JAPANESE_UNITS : UNITS;
}

/** Join the parts that are not empty. */
export function listed(parts: readonly string[]): string {
  return parts.filter(Boolean).join(language()?.startsWith('ja') ? '、' : ', ');
}

/** Join the facts that are not empty into a line. */
export function dotted(facts: readonly string[]): string {
  return facts.filter(Boolean).join(' · ');
}

/** Join the sentences that are not empty. No blank follows a Japanese full stop. */
export function together(parts: readonly (string | null)[]): string {
  return parts.filter(Boolean).join(' ').replace(/。 /g, '。');
}
