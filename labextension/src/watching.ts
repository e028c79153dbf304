// A widget that watches something while it is seen, and nothing else: attached, shown, hidden and
// detached are the same two things for it. What it watches is each widget's.
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';

export abstract class WatchingWidget extends ReactWidget {
  override dispose(): void {
    this.rest();
    super.dispose();
  }

  /** It may be seen now; also where it was before. */
  protected abstract look(): void;

  /** It is not seen any more; also where it was not before. */
  protected abstract rest(): void;

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.lookIfSeen();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.lookIfSeen();
  }

  protected override onBeforeHide(message: Message): void {
    this.rest();
    super.onBeforeHide(message);
  }

  protected override onBeforeDetach(message: Message): void {
    this.rest();
    super.onBeforeDetach(message);
  }

  private lookIfSeen(): void {
    if (this.isVisible) {
      this.look();
    }
  }
}
