interface Tool {
  /** The path of the file with the texts. */
  LAB_TEXTS: string;
  PLURALS: Record<string, string>;
  catalogue(locale: string): Record<string, string[]>;
  forms(locale: string): number;
  labTexts(): unknown;
  /** Plurals by singular; null if the text has no plural. */
  sources(): Map<string, string | null>;
}
const tool = jest.requireActual<Tool>('../../translations.cjs');
const sources = tool.sources();

function placeholders(text: string): string[] {
  return [...new Set(text.match(/%\d|%%|\{\w+\}/g))].sort();
}

test('texts to translate are found in the sources', () => {
  expect(sources.get('%1 GPU')).toBe('%1 GPUs');
  expect(sources.get('Notify when a job starts')).toBeNull();
});

test("a lab's page has its texts in each language (npm run translations)", () =>
  expect(jest.requireActual(tool.LAB_TEXTS)).toEqual(tool.labTexts()));

describe.each(Object.keys(tool.PLURALS))('%s', locale => {
  const { '': header, ...texts } = tool.catalogue(locale);

  test("the catalogue has JupyterLab's format", () =>
    expect(header).toEqual({
      domain: 'jupyter_slurm',
      language: locale.replace('_', '-'),
      plural_forms: tool.PLURALS[locale]
    }));

  test("the catalogue has exactly the sources' texts (npm run translations)", () =>
    expect(Object.keys(texts).sort()).toEqual([...sources.keys()].sort()));

  test('every text is translated, with its placeholders', () => {
    const bad = Object.entries(texts).filter(
      ([text, translations]) => !isWhole(text, sources.get(text) ?? null, translations, locale)
    );
    expect(bad).toEqual([]);
  });
});

function isWhole(
  text: string,
  plural: string | null,
  translations: string[],
  locale: string
): boolean {
  const wanted = placeholders(plural ?? text);
  const count = plural === null ? 1 : tool.forms(locale);
  return (
    translations.length === count &&
    translations.every((one, at) => {
      const there = placeholders(one);
      // The first form of a plural may give the number in words. %2 is the number formatted for
      // users.
      const number = wanted.includes('%1') ? '%1' : '%2';
      const needed = at === 0 && plural !== null ? wanted.filter(each => each !== number) : wanted;
      return (
        one.trim() !== '' &&
        needed.every(each => there.includes(each)) &&
        there.every(each => wanted.includes(each))
      );
    })
  );
}
