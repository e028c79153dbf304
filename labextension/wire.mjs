// Generates TypeScript from Python (`npm run wire`): src/wire.ts from jupyter_slurm/wire,
// src/states.ts from the words for its states, and src/submit/options.ts from the options with
// fields in the form. With --check it fails if a file is outdated.
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

function options() {
  const parts = [
    '// Options with a field in the form, in the order of its line. Generated from',
    '// jupyter_slurm/commands/table.py by `npm run wire`.',
    `export const OPTIONS = ${JSON.stringify(printed('form_options.py'))} as const;`
  ];
  return format(parts.join('\n'), { ...style, parser: 'typescript' });
}

function states() {
  const parts = [
    '// States of a job, their words, and the reasons not shown beside them. Generated from',
    '// jupyter_slurm/wire/state.py by `npm run wire`.',
    ...Object.entries(printed('states.py')).map(
      ([name, value]) => `export const ${name} = ${JSON.stringify(value)} as const;`
    )
  ];
  return format(parts.join('\n'), { ...style, parser: 'typescript' });
}

const made = {
  'src/states.ts': await states(),
  'src/submit/options.ts': await options(),
  'src/wire.ts': await compile(printed('wire_schema.py'), 'Wire', {
    bannerComment:
      '// Types of values that leave a process. Generated from jupyter_slurm/wire by `npm run wire`.',
    maxItems: -1,
    style
  })
};
for (const [name, text] of Object.entries(made)) {
  const target = join(here, name);
  if (!process.argv.includes('--check')) {
    writeFileSync(target, text);
  } else if (readFileSync(target, 'utf8') !== text) {
    console.error(`${name} is outdated. Run \`npm run wire\` in labextension/.`);
    process.exitCode = 1;
  }
}
