// Removal of all content of a notebook that would run without the user's trust. JupyterLab believes
// the flags of a drive. It creates saved widgets, which may be programs, as soon as a kernel runs.
// No I/O.

/** Deeper nesting would overflow the stack of a recursive copy. */
const DEEPEST = 200;

type Fields = Record<string, unknown>;

/** Return the notebook of a file; null if it is not a notebook. */
export function notebookOf(text: string): Fields | null {
  const notebook = parsed(text);
  if (
    !isFields(notebook) ||
    distrust(notebook).deep ||
    !Array.isArray(notebook.cells) ||
    !notebook.cells.every(isFields) ||
    !isFields(notebook.metadata)
  ) {
    return null;
  }
  takeAway(notebook.metadata, 'widgets');
  return notebook;
}

/** Return the text of a notebook without flags of trust; null if it is nested too deeply. */
export function distrusted(text: string): string | null {
  const notebook = parsed(text);
  if (!isFields(notebook)) {
    return text;
  }
  const { found, deep } = distrust(notebook);
  if (!found) {
    return text;
  }
  return deep ? null : `${JSON.stringify(notebook, null, 1)}\n`;
}

/** Remove the flags. Report whether there were any, and whether the nesting is too deep. */
function distrust(notebook: Fields): { found: boolean; deep: boolean } {
  let [found, deep] = [false, false];
  const left: [value: object, depth: number][] = [[notebook, 0]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [value, depth] = next;
    deep ||= depth > DEEPEST;
    // Copying this field by assignment would set the prototype of the copy. The next copy would
    // then include the prototype's fields.
    found = takeAway(value, '__proto__') || found;
    for (const inner of Array.isArray(value) ? (value as unknown[]) : Object.values(value)) {
      if (typeof inner === 'object' && inner !== null) {
        left.push([inner, depth + 1]);
      }
    }
  }
  const sheets = [notebook, ...fieldsIn(notebook.worksheets)];
  for (const { metadata } of [notebook, ...sheets.flatMap(sheet => fieldsIn(sheet.cells))]) {
    found = (isFields(metadata) && takeAway(metadata, 'trusted')) || found;
  }
  return { found, deep };
}

function takeAway(value: object, key: string): boolean {
  const has = Object.hasOwn(value, key);
  if (has) {
    Reflect.deleteProperty(value, key);
  }
  return has;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fieldsIn(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isFields) : [];
}
