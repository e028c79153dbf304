// Updates the catalogues of jupyter_slurm/locale from the sources (`npm run translations`). New
// texts get an empty translation, and removed texts are deleted. The tests fail for an empty
// translation.
const fs = require('fs');
const path = require('path');
const ts = require('typescript');

const LOCALES = path.join(__dirname, '..', 'jupyter_slurm', 'locale');
const DOMAIN = 'jupyter_slurm';
/** Plural rules as in GNU gettext, by the names of JupyterLab's language packs. */
const PLURALS = {
  da_DK: 'nplurals=2; plural=(n != 1);',
  it_IT: 'nplurals=2; plural=(n != 1);',
  ja_JP: 'nplurals=1; plural=0;',
  pt_BR: 'nplurals=2; plural=(n > 1);'
};
/** The texts of a schema that users read. settings.ts translates them. */
const SCHEMA_TEXTS = ['title', 'description', 'jupyter.lab.setting-icon-label'];
/** The function that translates texts of a schema, which are not literals in the sources. */
const BY_SCHEMA = 'settings.ts';
/** The words for states. They are data in the sources, and format.ts translates them. */
const STATES = path.join(__dirname, 'src', 'states.ts');
/**
 * The script that runs in the page of a lab on a node, which has no catalogue. Its texts are in a
 * file beside it.
 */
const LAB_PAGE = path.join(__dirname, '..', 'jupyter_slurm', 'node', 'lab_page.js');
const LAB_TEXTS = `${LAB_PAGE}on`;

/** Plurals by singular; null if the text has no plural. */
function sources() {
  const found = new Map();
  for (const file of files(path.join(__dirname, 'src'), /\.tsx?$/)) {
    readSource(file, found);
  }
  for (const file of files(path.join(__dirname, 'schema'), /\.json$/)) {
    readSchema(JSON.parse(fs.readFileSync(file, 'utf8')), found);
  }
  readSource(LAB_PAGE, found);
  for (const [, word] of fs.readFileSync(STATES, 'utf8').matchAll(/word: '(.+?)'/g)) {
    found.set(word, null);
  }
  return found;
}

function files(folder, wanted) {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) {
      return entry.name === '__tests__' ? [] : files(name, wanted);
    }
    return wanted.test(entry.name) ? [name] : [];
  });
}

function readSource(file, found) {
  const text = fs.readFileSync(file, 'utf8');
  const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const visit = node => {
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const name = node.expression.name.text;
      if (name === '__' || name === '_n') {
        add(node, name, file, found);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
}

function add(call, name, file, found) {
  const texts = call.arguments.slice(0, name === '_n' ? 2 : 1).map(literal);
  if (!texts.includes(null)) {
    found.set(texts[0], texts[1] ?? null);
  } else if (path.basename(file) !== BY_SCHEMA) {
    throw new Error(`${file}: only literal text can be translated: ${call.getText()}`);
  }
}

function literal(node) {
  if (ts.isStringLiteralLike(node)) {
    return node.text;
  }
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const parts = [literal(node.left), literal(node.right)];
    return parts.includes(null) ? null : parts.join('');
  }
  return null;
}

function readSchema(schema, found) {
  for (const [key, value] of Object.entries(schema)) {
    if (typeof value === 'string' && SCHEMA_TEXTS.includes(key)) {
      found.set(value, null);
    } else if (typeof value === 'object' && value !== null) {
      readSchema(value, found);
    }
  }
}

function catalogueFile(locale) {
  return path.join(LOCALES, locale, 'LC_MESSAGES', `${DOMAIN}.json`);
}

/** Return a catalogue as it is in its file; {} if there is none. */
function catalogue(locale) {
  const file = catalogueFile(locale);
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : {};
}

/** Return the number of plural forms. JupyterLab needs at least two (Gettext.dcnpgettext). */
function forms(locale) {
  return Math.max(2, Number(/nplurals=(\d)/.exec(PLURALS[locale])[1]));
}

function update(locale) {
  const known = catalogue(locale);
  const header = {
    domain: DOMAIN,
    language: locale.replace('_', '-'),
    plural_forms: PLURALS[locale]
  };
  const entries = [...sources()]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([text, plural]) => {
      const count = plural === null ? 1 : forms(locale);
      const there = known[text];
      return [text, there?.length === count ? there : Array(count).fill('')];
    });
  const file = catalogueFile(locale);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  const all = { '': header, ...Object.fromEntries(entries) };
  fs.writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`);
  return entries.filter(([, texts]) => texts.includes('')).length;
}

/** The texts of LAB_PAGE, by language as a page names it. */
function labTexts() {
  const found = new Map();
  readSource(LAB_PAGE, found);
  const wanted = [...found.keys()].sort();
  return Object.fromEntries(
    Object.keys(PLURALS).map(locale => {
      const { '': header, ...texts } = catalogue(locale);
      return [header.language, Object.fromEntries(wanted.map(text => [text, texts[text]]))];
    })
  );
}

function updateLabTexts() {
  fs.writeFileSync(LAB_TEXTS, `${JSON.stringify(labTexts(), null, 2)}\n`);
}

module.exports = { LAB_TEXTS, PLURALS, catalogue, forms, labTexts, sources };

if (require.main === module) {
  for (const locale of Object.keys(PLURALS)) {
    console.log(`${locale}: ${update(locale)} to translate`);
  }
  updateLabTexts();
}
