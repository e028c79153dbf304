// Generated hostile notebooks, names, bundles and displays; equal for equal seeds.

const RUN = 'harmed()';

const FRAGMENTS = [
  `<script>${RUN}</script>`,
  `<img src=x onerror=${RUN}>`,
  `<svg onload=${RUN}><script href="data:,${RUN}"/></svg>`,
  `<a href="javascript:${RUN}">a</a>`,
  `<a href=" java\tscript:${RUN}">a</a>`,
  `<a xlink:href="&#106;avascript:${RUN}">a</a>`,
  `[a](javascript:${RUN}) ![a](x "onerror=${RUN}")`,
  `<iframe srcdoc="<script>parent.${RUN}</script>"></iframe>`,
  `<object data="data:text/html,<script>${RUN}</script>"></object><embed src=x>`,
  `<math><mtext></table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=${RUN}&gt;">`,
  `<form action="javascript:${RUN}"><input autofocus onfocus=${RUN}><button formaction=x>a</button></form>`,
  `<button data-commandlinker-command="jupyter-slurm:cancel" data-commandlinker-args="{}" class="jp-Dialog">a</button>`,
  `<base href="//evil/"><meta http-equiv=refresh content="0;javascript:${RUN}"><link rel=stylesheet href=//evil>`,
  `<style>@import "//evil";</style><p style="background:url(javascript:${RUN})">a</p>`,
  `</pre></script><noscript><p title="</noscript><img src=x onerror=${RUN}>">`,
  `$\\href{javascript:${RUN}}{a}$`,
  `\u001b]8;;javascript:${RUN}\u0007a\u001b]8;;\u0007\u001b[31m<b onclick=${RUN}>`,
  '\u202e\u2066gpj.exe',
  '\u0000\r\n\u2028',
  '\ud800',
  '__proto__',
  'constructor',
  'toString',
  '../../etc/passwd',
  '..',
  'Slurm:other/x',
  '%2e%2e%2f',
  'a2b4c6d7\n',
  ''
] as const;

const TYPES = [
  'text/html',
  'text/markdown',
  'text/latex',
  'text/plain',
  'image/svg+xml',
  'image/png',
  'application/javascript',
  'application/json',
  'application/pdf',
  'application/vnd.vega.v5+json',
  'application/vnd.jupyter.widget-view+json',
  'application/vnd.jupyter-slurm.job+json',
  '__proto__',
  ''
] as const;

const WIDGETS = 'application/vnd.jupyter.widget-state+json';

/**
 * Fields in order, possibly repeated. JSON files can repeat a field, but JavaScript objects cannot.
 */
export class Fields {
  constructor(readonly pairs: [string, Json][]) {}
}

export type Json = string | number | boolean | null | Json[] | Fields;

export class Hostile {
  constructor(private state: number) {}

  /** A number from 0 up to 1. */
  chance(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(end: number): number {
    return Math.floor(this.chance() * end);
  }

  of<T>(all: readonly T[]): T {
    return all[this.below(all.length)] as T;
  }

  name(): string {
    const huge = this.chance() < 0.002 ? 'x'.repeat(100_000) : '';
    return `${this.of(FRAGMENTS)}${this.of(FRAGMENTS)}${huge}`;
  }

  text(): string {
    return Array.from({ length: 1 + this.below(4) }, () => this.name()).join(
      this.of(['', ' ', '\n'])
    );
  }

  json(depth = 0): Json {
    const kind = this.below(depth > 3 ? 4 : 6);
    const more = (): Json => this.json(depth + 1);
    switch (kind) {
      case 0:
        return this.text();
      case 1:
        return this.of([0, -1, 4, 1e9]);
      case 2:
        return this.of([true, false]);
      case 3:
        return null;
      case 4:
        return Array.from({ length: this.below(4) }, more);
      default:
        return new Fields(Array.from({ length: this.below(4) }, () => [this.name(), more()]));
    }
  }

  bundle(): Fields {
    const types = Array.from({ length: 1 + this.below(4) }, () => this.of(TYPES));
    return new Fields(types.map(type => [type, this.chance() < 0.8 ? this.text() : this.json()]));
  }

  /** Sometimes replace the value of a field, or the field itself. */
  private broken(fields: Fields): Fields {
    const { pairs } = fields;
    if (this.chance() < 0.03 && pairs.length > 0) {
      const at = this.below(pairs.length);
      pairs[at] = this.chance() < 0.5 ? [pairs[at]?.[0] ?? '', this.json()] : [this.name(), 0];
    }
    return fields;
  }

  private metadata(): Fields {
    const yes = this.of<Json>([true, 1, 'no', new Fields([])]);
    const flag: [string, Json] = ['trusted', yes];
    const ways: [string, Json][][] = [
      [flag],
      [['trusted', false], flag],
      [['__proto__', new Fields([flag])]],
      [['__proto__', new Fields([['__proto__', new Fields([flag])]])]],
      [['collapsed', true], ['jupyter', new Fields([flag])], flag]
    ];
    return this.broken(new Fields(this.of(ways)));
  }

  /** The metadata of a notebook with saved widgets in every form. */
  private ofAll(): Fields {
    const widgets: [string, Json] = ['widgets', new Fields([[WIDGETS, this.json()]])];
    const inherited: [string, Json] = ['__proto__', new Fields([widgets])];
    const { pairs } = this.metadata();
    return new Fields(this.of([pairs, [...pairs, widgets], [widgets, ...pairs, inherited]]));
  }

  private output(): Fields {
    return this.broken(
      new Fields([
        ['output_type', this.of(['display_data', 'execute_result', 'stream', 'error'])],
        ['execution_count', 1],
        ['metadata', this.metadata()],
        ['name', 'stdout'],
        ['text', this.text()],
        ['ename', this.name()],
        ['evalue', this.text()],
        ['traceback', [this.text()]],
        ['data', this.bundle()],
        ['trusted', true]
      ])
    );
  }

  private cell(): Fields {
    const said: [string, Json] = ['metadata', this.metadata()];
    const cell: [string, Json][] = [
      ['cell_type', this.chance() < 0.8 ? 'code' : this.of(['markdown', 'raw'])],
      ['source', this.text()],
      ['execution_count', null],
      ['outputs', Array.from({ length: this.below(3) }, () => this.output())],
      ['trusted', true]
    ];
    const inherited: [string, Json] = ['__proto__', new Fields([said])];
    return this.broken(new Fields([...cell, this.chance() < 0.3 ? inherited : said]));
  }

  private whole(): Fields {
    const cells: [string, Json] = [
      'cells',
      Array.from({ length: 1 + this.below(3) }, () => this.cell())
    ];
    const format = this.of([4, 4, 4, 3, 5]);
    const held: [string, Json] = this.of([
      cells,
      cells,
      cells,
      cells,
      ['__proto__', new Fields([cells])],
      ['worksheets', [new Fields([cells])]]
    ]);
    return this.broken(
      new Fields([
        held,
        ['metadata', this.ofAll()],
        ['nbformat', format],
        ['nbformat_minor', this.of([0, 4, 5])]
      ])
    );
  }

  /** The text of a notebook's file. */
  notebook(): string {
    const text = this.written(this.whole());
    const odd = this.chance();
    if (odd < 0.02) {
      return text.slice(0, this.below(text.length));
    }
    if (odd < 0.04) {
      return `\ufeff${text}`;
    }
    if (odd < 0.06) {
      const deep = 1 + this.below(100_000);
      return text.replace(/^\{/, () => `{"deep":${'['.repeat(deep)}${']'.repeat(deep)},`);
    }
    return text;
  }

  written(value: Json): string {
    if (Array.isArray(value)) {
      return `[${value.map(one => this.written(one)).join(',')}]`;
    }
    if (value instanceof Fields) {
      return `{${value.pairs.map(([key, one]) => `${this.key(key)}:${this.written(one)}`).join(',')}}`;
    }
    return JSON.stringify(value);
  }

  /** The key as JSON, sometimes with its first letter escaped. */
  private key(key: string): string {
    const letter = key.charAt(0);
    return /[a-z_]/.test(letter) && this.chance() < 0.3
      ? `"\\u00${letter.charCodeAt(0).toString(16)}${JSON.stringify(key.slice(1)).slice(1)}`
      : JSON.stringify(key);
  }
}

const OWN = new Set(['data-mime-type']);
const TELLING = new Set(['href', 'src', 'action', 'formaction', 'xlink:href', 'data', 'poster']);
const PLAYS = 'script, iframe, frame, object, embed, base, meta, link, style';

/** The parts of a document that could run code when shown or clicked. */
export function active(node: Element): string[] {
  const all = [...node.querySelectorAll('*')];
  const found = [...node.querySelectorAll(PLAYS)].map(one => one.outerHTML);
  for (const { name, value } of all.flatMap(one => [...one.attributes])) {
    const [scheme] = value
      .replace(/[\p{Cc}\s]/gu, '')
      .toLowerCase()
      .split(':');
    const runs = TELLING.has(name) && ['javascript', 'vbscript'].includes(scheme ?? '');
    if (!OWN.has(name) && (runs || name.startsWith('on') || name === 'srcdoc')) {
      found.push(`${name}=${value}`);
    }
  }
  return found;
}
