// The form as a widget. view.tsx draws it.
import { PromiseDelegate, UUID, type ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { MessageLoop, type Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import type { JSX } from 'react';
import { visible } from '../format';
import { usualOf } from '../commands/targets';
import { jobIcon, kernelIcon, labIcon } from '../icons';
import { trans } from '../translation';
import { ModelWidget } from '../watching';
import { NoCluster } from '../welcome/view';
import type { Job } from '../wire';
import type { Wishes } from './form';
import { kept } from './restoring';
import { pathOf } from './source';
import { SubmitView, type Draft, type SubmitProps } from './view';

/** The values that do not change. */
type SubmitOptions = Omit<SubmitProps, 'draft' | 'keep'> & {
  wishes: Wishes;
  /** Identifies the form across reloads; undefined for a new form. */
  name?: string | undefined;
};

export class SubmitPanel extends ModelWidget {
  readonly name: string;
  /** Emitted when the input has changed. */
  readonly drafted = new Signal<this, void>(this);
  /** The first job of the form; null if it was closed without a job. */
  readonly made = new PromiseDelegate<Job | null>();
  private draft: Draft;

  constructor(private readonly props: SubmitOptions) {
    super(props.model);
    const { source, wishes } = props;
    this.draft = { wishes, code: source.kind === 'code' ? source.code : '' };
    this.name = props.name ?? UUID.uuid4();
    this.id = `jupyter-slurm-submit-${this.name}`;
    const path = pathOf(source);
    const name = visible(path.split('/').at(-1) ?? '');
    const labels = {
      code: trans.__('New Slurm job'),
      lab: trans.__('Jupyter on a node'),
      kernel: trans.__('New remote kernel'),
      cell: trans.__('Cell of %1 on Slurm', name),
      file: trans.__('%1 on Slurm', name)
    };
    this.title.label = labels[source.kind];
    this.title.caption = visible(path);
    this.title.icon =
      source.kind === 'lab' ? labIcon : source.kind === 'kernel' ? kernelIcon : jobIcon;
    this.title.closable = true;
    this.addClass('jp-slurm');
    this.addClass('jp-slurm-SubmitPanel');
  }

  /** The state for a reload. */
  get kept(): ReadonlyPartialJSONObject {
    return kept(this.name, this.props.source, this.draft.wishes, this.draft.code);
  }

  override dispose(): void {
    Signal.clearData(this);
    this.made.resolve(null);
    super.dispose();
  }

  protected override view(): JSX.Element {
    const { model, commands } = this.props;
    const { wishes } = this.draft;
    if (model.hasNoCluster) {
      return <NoCluster model={model} commands={commands} />;
    }
    if (wishes.cluster === '') {
      const cluster = usualOf(model.clusters);
      if (cluster === '') {
        return <></>; // the agent has not sent clusters yet
      }
      this.draft = { ...this.draft, wishes: { ...wishes, cluster } };
    }
    return (
      <SubmitView
        {...this.props}
        draft={this.draft}
        keep={draft => {
          this.draft = draft;
          this.drafted.emit();
        }}
      />
    );
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    void this.focusFirst();
  }

  /** Focus the first field once React has drawn it. */
  private async focusFirst(): Promise<void> {
    // Send the message without flushing it, since this may run within the message loop.
    MessageLoop.sendMessage(this, Widget.Msg.UpdateRequest);
    await this.renderPromise;
    if (!this.node.querySelector('form')?.contains(document.activeElement)) {
      this.node.querySelector<HTMLElement>('[contenteditable="true"], select')?.focus();
    }
  }
}
