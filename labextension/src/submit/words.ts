// Conversion of a line into its words, quoted as in a POSIX shell, without expansion. No I/O.

/** Split a line; return null if a quote is open. */
export function split(line: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote = '';
  for (let at = 0; at < line.length; at += 1) {
    const sign = line.charAt(at);
    if (sign === '\\' && quote !== "'") {
      at += 1;
      if (at === line.length) {
        return null;
      }
      const next = line.charAt(at);
      const kept = quote === '"' && !'"\\'.includes(next) ? '\\' : '';
      word = (word ?? '') + kept + next;
    } else if (quote !== '') {
      if (sign === quote) {
        quote = '';
      } else {
        word = (word ?? '') + sign;
      }
    } else if (sign === '"' || sign === "'") {
      quote = sign;
      word ??= '';
    } else if (/\s/.test(sign)) {
      if (word !== null) {
        words.push(word);
      }
      word = null;
    } else {
      word = (word ?? '') + sign;
    }
  }
  if (quote !== '') {
    return null;
  }
  return word === null ? words : [...words, word];
}

/** Quote a word for a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'"'"'`)}'`;
}
