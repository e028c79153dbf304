// The language in which times and numbers are written.

/** Return the page's language; undefined: a page that names none, whose numbers are the browser's. */
export function language(): string | undefined {
  return document.documentElement.lang || undefined;
}

/** Writes a number as people read it: `4,900`. */
export function numeral(count: number): string {
  return count.toLocaleString(language());
}
