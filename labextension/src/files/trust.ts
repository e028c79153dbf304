// A notebook without what it says of its own trust, and without what would run whatever that is.
// JupyterLab believes the flags of what a drive hands over, since its own server sets them by this
// machine's signatures. And of a notebook that nobody has trusted, too, it makes the widgets that it
// was saved with as soon as there is a kernel; their models may be programs (anywidget's are). Pure.

/** No notebook that somebody means to read is nested deeper, and who copies one does so by recursion. */
const DEEPEST = 200;

type Fields = Record<string, unknown>;

/** The notebook of a file; null: JupyterLab cannot read it as one. */
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

/** The text of a notebook as it is, unless it says something of trust; null: too deep to be written. */
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

/** Takes it away; whether there was any, and whether it is nested too deep for recursion. */
function distrust(notebook: Fields): { found: boolean; deep: boolean } {
  let [found, deep] = [false, false];
  const left: [value: object, depth: number][] = [[notebook, 0]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [value, depth] = next;
    deep ||= depth > DEEPEST;
    // A copy by assignment makes this the prototype, and what is inherited its own in the next copy.
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
