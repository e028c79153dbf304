// Removes from a notebook what would run without the user's trust: JupyterLab believes the flags of a
// drive, and creates saved widgets, which may be programs, as soon as a kernel runs. Pure.

/** Deeper nesting would overflow the stack of a recursive copy. */
const DEEPEST = 200;

type Fields = Record<string, unknown>;

/** The notebook of a file; null: not a notebook. */
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

/** The text of a notebook without flags of trust; null: too deep. */
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

/** Remove the flags; report whether there were any, and too deep nesting. */
function distrust(notebook: Fields): { found: boolean; deep: boolean } {
  let [found, deep] = [false, false];
  const left: [value: object, depth: number][] = [[notebook, 0]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [value, depth] = next;
    deep ||= depth > DEEPEST;
    // Copying by assignment makes this a prototype, whose fields the next copy owns.
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
