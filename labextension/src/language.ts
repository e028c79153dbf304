// The language in which times and numbers are written.

/** Return the page's language; undefined: a page that names none, whose numbers are the browser's. */
export function language(): string | undefined {
  return document.documentElement.lang || undefined;
}

/** Writes a number as people read it: `4,900`. */
export function numeral(count: number): string {
  return count.toLocaleString(language());
}

/** Writes it with so many digits behind the point, which is a comma in most languages. */
export function decimal(value: number, digits = 1): string {
  const exactly = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString(language(), exactly);
}

const UNITS = ['d', 'h', 'min', 's'] as const;
const JAPANESE_UNITS = ['日', '時間', '分', '秒'] as const;

/** The signs of day, hour, minute and second, which all our languages but one share. */
export function unitsOfTime(): typeof UNITS | typeof JAPANESE_UNITS {
  return language()?.startsWith('ja') ? JAPANESE_UNITS : UNITS;
}

/** Joins the parts that are not empty. */
export function listed(parts: readonly string[]): string {
  return parts.filter(Boolean).join(language()?.startsWith('ja') ? '、' : ', ');
}

/** Joins the facts that are not empty, in a line of them. */
export function dotted(facts: readonly string[]): string {
  return facts.filter(Boolean).join(' · ');
}

/** Joins the sentences that are not empty; no blank follows a Japanese full stop. */
export function together(parts: readonly (string | null)[]): string {
  return parts.filter(Boolean).join(' ').replace(/。 /g, '。');
}
