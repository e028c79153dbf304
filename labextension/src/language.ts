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

/** Joins the parts that are not empty. */
export function listed(parts: readonly string[]): string {
  return parts.filter(Boolean).join(language()?.startsWith('ja') ? '、' : ', ');
}

/** Joins the sentences that are not empty; no blank follows a Japanese full stop. */
export function together(parts: readonly string[]): string {
  return parts.filter(Boolean).join(' ').replace(/。 /g, '。');
}
