// The two dialogs that add a cluster: one asks how to connect, and one shows the detected settings.
import { Dialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { make, paragraph } from '../dom';
import { visible } from '../format';
import { told } from '../messages';
import { trans } from '../translation';
import type { Problem } from '../wire';
import type { Choice, Found, Way, Ways } from './adding';

/** An entry of a list. */
type Item = readonly [value: string, text: string];

const SSH_HOSTS = 'jp-slurm-ssh-hosts';
/** The fields before any input. */
export const NO_WAY = { host: '', user: '', jump: '', path: '', env: '', answers: {} } as const;

/** Ask how to connect, starting from the failed values; return null if the user cancelled. */
export async function wayDialog(
  before: Way,
  problem: Problem | null,
  ways: Ways
): Promise<Way | null> {
  const dialog = new Dialog<Way>({
    title: trans.__('Connect to a cluster'),
    body: new WayBody(before, problem, ways),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Connect') })
    ],
    focusNodeSelector: 'input'
  });
  const { button, value } = await dialog.launch();
  return button.accept ? value : null;
}

/**
 * Show the detected settings, and ask for settings unless a template has them; return null if the
 * user cancelled.
 */
export async function foundDialog(
  name: string,
  found: Found,
  asks: boolean
): Promise<Choice | null> {
  const dialog = new Dialog<Choice>({
    title: trans.__('Found on %1', visible(name)),
    body: new FoundBody(found, asks),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Add cluster') })
    ]
  });
  const { button, value } = await dialog.launch();
  return button.accept ? value : null;
}

class WayBody extends Widget implements Dialog.IBodyWidget<Way> {
  private readonly template: HTMLSelectElement;
  private readonly fields = make('div', { className: 'jp-slurm-NewCluster' });
  private readonly last = make('div', {});
  private readonly name: HTMLInputElement;
  /** The fields by name: host, user, jump …, or a template's questions. */
  private inputs = new Map<string, HTMLInputElement | HTMLTextAreaElement>();
  private proposed: string;

  constructor(
    private readonly before: Way,
    problem: Problem | null,
    private readonly ways: Ways
  ) {
    super();
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-NewCluster');
    // The text before the colon names the site.
    const templates = ways.templates.map(({ name, about }): Item => [
      name,
      about.replace(/:.*/, '')
    ]);
    this.template = select([['', trans.__('None')], ...templates]);
    this.template.value = before.template;
    this.template.onchange = () => this.ask();
    this.name = input(before.name, trans.__('Short name, e.g. mycluster'));
    this.proposed = before.name;
    if (problem !== null) {
      const text = paragraph(told(problem), 'jp-slurm-Problem');
      text.setAttribute('role', 'alert');
      this.node.append(text);
    }
    this.node.append(
      labelled(trans.__('Template'), this.template),
      this.fields,
      labelled(trans.__('Name'), this.name),
      this.last
    );
    this.ask();
  }

  getValue(): Way {
    const { value: template } = this.template;
    const typed = Object.fromEntries(
      [...this.inputs].map(([name, { value }]) => [name, value.trim()])
    );
    const way = template === '' ? typed : { answers: typed };
    return { ...NO_WAY, ...way, template, name: this.name.value.trim() };
  }

  /** Show the fields of the chosen template, or the fields for any host. */
  private ask(): void {
    const chosen = this.ways.templates.find(one => one.name === this.template.value);
    this.inputs = new Map();
    if (chosen !== undefined) {
      const asked = Object.entries(chosen.ask).map(([name, question]) =>
        this.field(name, question, input(this.before.answers[name] ?? ''))
      );
      this.last.replaceChildren();
      const about = [chosen.about, chosen.hint].filter(one => one !== '');
      const told = about.map(text => paragraph(text, 'jp-slurm-Quiet'));
      this.fields.replaceChildren(...told, ...asked);
      this.propose(chosen.name);
      return;
    }
    const { before } = this;
    const host = input(before.host, 'login.example.org');
    host.setAttribute('list', SSH_HOSTS);
    host.oninput = () => this.propose(nameOf(host.value));
    const user = input(before.user, trans.__('As in ~/.ssh/config'));
    this.last.replaceChildren(this.more());
    this.fields.replaceChildren(
      this.field('host', trans.__('Host'), host),
      this.field('user', trans.__('User'), user),
      this.field('jump', trans.__('Gateway'), input(before.jump, trans.__('None'))),
      make('datalist', { id: SSH_HOSTS }, ...optionsOf(plain(this.ways.hosts)))
    );
  }

  /** Fields that few clusters need. */
  private more(): HTMLElement {
    const { before } = this;
    const env = make('textarea', {
      className: 'jp-mod-styled',
      rows: 2,
      spellcheck: false,
      placeholder: trans.__('NAME=VALUE, one per line'),
      value: before.env
    });
    const fields = make(
      'div',
      { className: 'jp-slurm-NewCluster' },
      this.field(
        'path',
        trans.__('Directory of Slurm commands'),
        input(before.path, '/opt/slurm/bin')
      ),
      this.field('env', trans.__('Environment'), env)
    );
    const open = before.path !== '' || before.env !== '';
    return make('details', { open }, make('summary', {}, trans.__('More options')), fields);
  }

  private field(
    name: string,
    label: string,
    field: HTMLInputElement | HTMLTextAreaElement
  ): HTMLElement {
    this.inputs.set(name, field);
    return labelled(label, field);
  }

  /** Propose a name unless the user has typed another one. */
  private propose(name: string): void {
    if (this.name.value === this.proposed) {
      this.name.value = name;
      this.proposed = name;
    }
  }
}

class FoundBody extends Widget implements Dialog.IBodyWidget<Choice> {
  private readonly fields = new Map<keyof Choice, HTMLSelectElement>();

  constructor({ info, python, ...found }: Found, asks: boolean) {
    super();
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-NewCluster');
    const versions = [
      `Slurm ${info.slurm_version}`,
      ...(python === null ? [] : [`Python ${python}`]),
      ...info.partitions.map(one => one.name)
    ];
    this.node.append(paragraph(visible(versions.join(' · '))));
    if (!asks) {
      return;
    }
    const usual: Item = ['', trans.__('Default')];
    const partitions = plain(info.partitions.map(one => one.name));
    const partition = select(found.partition === '' ? [usual, ...partitions] : partitions);
    partition.value = found.partition;
    this.ask('runtime', trans.__('Containers'), select(plain(found.runtimes)));
    this.ask('job_root', trans.__('Job directory'), select(plain(found.job_roots)));
    this.ask('partition', trans.__('Partition'), partition);
    if (info.accounts.length > 1) {
      this.ask('account', trans.__('Account'), select([usual, ...plain(info.accounts)]));
    }
  }

  getValue(): Choice {
    return Object.fromEntries([...this.fields].map(([name, { value }]) => [name, value]));
  }

  private ask(name: keyof Choice, label: string, field: HTMLSelectElement): void {
    this.fields.set(name, field);
    this.node.append(labelled(label, field));
  }
}

/** Return a valid name for a cluster, from the first part of the host name. */
export function nameOf(host: string): string {
  const bare = host.trim().replace(/^.*@/, '').replace(/:\d+$/, '');
  const first = /^[\d.]+$/.test(bare) ? bare : (bare.split('.')[0] ?? '');
  return first.replace(/[^A-Za-z0-9._-]/g, '-').replace(/^[^A-Za-z0-9]+/, '');
}

function input(value: string, placeholder = ''): HTMLInputElement {
  const kind = { type: 'text', autocomplete: 'off', spellcheck: false } as const;
  return make('input', { className: 'jp-mod-styled', ...kind, placeholder, value });
}

function plain(values: readonly string[]): Item[] {
  return values.map(one => [one, visible(one)]);
}

function optionsOf(items: readonly Item[]): HTMLOptionElement[] {
  return items.map(([value, text]) => new Option(text, value));
}

function select(items: readonly Item[]): HTMLSelectElement {
  return make('select', { className: 'jp-mod-styled' }, ...optionsOf(items));
}

function labelled(text: string, field: HTMLElement): HTMLElement {
  return make('label', {}, text, field);
}
