// Generates the TypeScript that mirrors the Python side (`npm run wire`): src/wire.ts from
// jupyter_slurm/wire, src/states.ts from the words for its states, src/submit/options.ts from the
// options that the form has fields for. With --check it fails where a file is stale.
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
    '// The options that the form has a field for, in the order of its line, as the table of commands',
    '// has them (jupyter_slurm/commands/table.py). Made by `npm run wire`; not edited by hand.',
    `export const OPTIONS = ${JSON.stringify(printed('form_options.py'))} as const;`
  ];
  return format(parts.join('\n'), { ...style, parser: 'typescript' });
}

function states() {
  const parts = [
    '// The states of a job with their words, and the reasons that need none beside them, as',
    '// jupyter_slurm/wire/state.py has them. Made by `npm run wire`; not edited by hand.',
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
      '// What leaves a process, as jupyter_slurm/wire has it. Made by `npm run wire`; not edited by hand.',
    maxItems: -1,
    style
  })
};
for (const [name, text] of Object.entries(made)) {
  const target = join(here, name);
  if (!process.argv.includes('--check')) {
    writeFileSync(target, text);
  } else if (readFileSync(target, 'utf8') !== text) {
    console.error(
      `${name} is older than the Python that it is made of: run \`npm run wire\` in labextension/.`
    );
    process.exitCode = 1;
  }
}
