// Makes of the Python side what the browser's side takes from it (`npm run wire`): src/wire.ts of
// jupyter_slurm.wire, src/sentences.ts of what the agent says. With --check it says whether that is
// needed.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile } from 'json-schema-to-typescript';
import { format } from 'prettier';

const here = dirname(fileURLToPath(import.meta.url));
const style = { singleQuote: true, trailingComma: 'none', arrowParens: 'avoid', printWidth: 100 };

function printed(script) {
  const text = execFileSync('python', [join(here, script)], {
    encoding: 'utf8',
    cwd: join(here, '..')
  });
  return JSON.parse(text);
}

async function sentences() {
  const parts = [
    '// What the agent says of jobs, %1, %2 … in the place of what varies; of `limits`, %1 is one of',
    '// `things`; `phrases` are what may stand in the place of any. Made by `npm run wire`; not edited',
    '// by hand. said.ts translates it.'
  ];
  for (const [name, texts] of Object.entries(printed('said_sentences.py'))) {
    parts.push(`export const ${name}: readonly string[] = ${JSON.stringify(texts)};`);
  }
  return format(parts.join('\n'), { ...style, parser: 'typescript' });
}

const made = {
  'wire.ts': await compile(printed('wire_schema.py'), 'Wire', {
    bannerComment:
      '// What leaves a process, as jupyter_slurm/wire has it. Made by `npm run wire`; not edited by hand.',
    maxItems: -1,
    style
  }),
  'sentences.ts': await sentences()
};
for (const [name, text] of Object.entries(made)) {
  const target = join(here, 'src', name);
  if (!process.argv.includes('--check')) {
    writeFileSync(target, text);
  } else if (readFileSync(target, 'utf8') !== text) {
    console.error(
      `src/${name} is older than the Python that it is made of: run \`npm run wire\` in labextension/.`
    );
    process.exitCode = 1;
  }
}
