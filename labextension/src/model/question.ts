// A login's question as a dialog, by its kind: a secret that is never shown, a text, a passphrase,
// or a host's key. A host's text is in its own block, so that it cannot look like a question of
// this machine. login.ts sends the answer.
import { Clipboard, Dialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { make, paragraph } from '../dom';
import { visible } from '../format';
import { trans } from '../translation';
import type { Connection, Question } from '../wire';

const FINGERPRINT = /(?:SHA256:\S+|MD5:(?:[0-9a-f]{2}:){15}[0-9a-f]{2})/i;

export function questionDialog(question: Question, connection: Connection): Dialog<string> {
  const isKey = question.kind === 'host-key';
  const [title, answer] = words(question);
  return new Dialog<string>({
    title,
    body: new QuestionBody(question, connection),
    buttons: [
      Dialog.cancelButton({ label: isKey ? trans.__('No') : trans.__('Cancel login') }),
      Dialog.okButton({ label: answer })
    ],
    // Pressing Enter without reading must not trust a host.
    defaultButton: isKey ? 0 : 1,
    ...(isKey || question.kind === 'touch' ? {} : { focusNodeSelector: 'input' })
  });
}

/** The dialog's title and the label of its button. */
function words({ kind, host }: Question): [string, string] {
  switch (kind) {
    case 'host-key':
      return [trans.__('Is this %1?', host), trans.__('Yes, remember this key')];
    case 'touch':
      return [trans.__('Touch your security key'), trans.__('OK')];
    case 'passphrase':
      return [trans.__('Unlock a key on this machine'), trans.__('Unlock')];
    default:
      return [trans.__('%1 asks', host), trans.__('Answer')];
  }
}

class QuestionBody extends Widget implements Dialog.IBodyWidget {
  private readonly input: HTMLInputElement | null = null;

  constructor(question: Question, connection: Connection) {
    super();
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-Question');
    this.node.append(paragraph(way(question, connection), 'jp-slurm-Quiet'));
    const { prompt } = question;
    const before = question.instruction.split('\n').filter(one => one.trim() !== '');
    if (question.kind === 'host-key') {
      for (const line of before) {
        this.node.append(FINGERPRINT.test(line) ? fingerprint(line) : paragraph(line));
      }
      this.node.append(paragraph(prompt));
      return;
    }
    if (question.kind === 'touch') {
      this.node.append(paragraph(prompt));
      return;
    }
    const isOurs = question.kind === 'passphrase';
    const lines = [...before, prompt].map(line => paragraph(line));
    const asks = isOurs ? paragraph(prompt) : make('blockquote', {}, ...lines);
    const label = make('label', {}, asks);
    if (question.refused) {
      label.append(
        paragraph(
          `⚠ ${trans.__('The answer was rejected. Try again.')}`,
          'jp-slurm-Question-warning'
        )
      );
    }
    if (question.names_a_key) {
      const warning = trans.__(
        'Careful: %1 does not need the passphrase of your key.',
        question.host
      );
      label.append(paragraph(`⚠ ${warning}`, 'jp-slurm-Question-warning'));
    }
    this.input = make('input', {
      className: 'jp-mod-styled',
      type: question.kind === 'text' ? 'text' : 'password',
      autocomplete: 'off',
      spellcheck: false
    });
    const goes = isOurs
      ? trans.__('Your answer stays on this machine.')
      : trans.__('Your answer is sent to %1.', question.host);
    label.append(this.input, paragraph(goes, 'jp-slurm-Quiet'));
    this.node.append(label);
  }

  /** For a host key and a security key, pressing the button is the answer. */
  getValue(): string {
    return this.input === null ? 'yes' : this.input.value;
  }
}

/** The cluster and the hops. */
function way(question: Question, connection: Connection): string {
  const hops = connection.hosts.map(visible);
  const at = hops.indexOf(question.host);
  if (at < 0 || hops.length < 2) {
    return trans.__('To reach the cluster %1', question.cluster);
  }
  return trans.__(
    'Hop %1 of %2 to the cluster %3: %4',
    at + 1,
    hops.length,
    question.cluster,
    hops.join(' → ')
  );
}

/** A key as code, with a copy button. */
function fingerprint(line: string): HTMLElement {
  const copy = make('button', { type: 'button', className: 'jp-slurm-Button' }, trans.__('Copy'));
  copy.setAttribute('aria-label', trans.__('Copy the fingerprint'));
  copy.onclick = () => {
    Clipboard.copyToSystem(FINGERPRINT.exec(line)?.[0] ?? line);
    copy.textContent = trans.__('Copied');
  };
  return make('div', { className: 'jp-slurm-Fingerprint' }, make('code', {}, line), copy);
}
