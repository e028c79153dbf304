// A widget that watches something while it is seen, and nothing else: attached, shown, hidden and
// detached are the same two things for it. Its view is loaded when it is first seen, and drawn while
// it is seen. `useSeen` tells the view's parts whether it is. Each widget says what it watches.
import { ReactWidget } from '@jupyterlab/ui-components';
import type { IDisposable } from '@lumino/disposable';
import type { Message } from '@lumino/messaging';
import { createContext, createElement, useContext, type JSX } from 'react';
import type { ISlurmModel } from './tokens';

export const SeenContext = createContext(true);

/** Tells whether anybody can see the widget. Where nobody can, watch nothing and tick no clock. */
export function useSeen(): boolean {
  return useContext(SeenContext);
}

export abstract class WatchingWidget extends ReactWidget {
  private isDrawnAsSeen = false;

  override dispose(): void {
    this.rest();
    super.dispose();
  }

  /** It may be seen now; also where it was before. */
  protected abstract look(): void;

  /** It is not seen any more; also where it was not before. */
  protected abstract rest(): void;

  protected abstract view(): JSX.Element;

  protected override render(): JSX.Element {
    return createElement(SeenContext.Provider, { value: this.isVisible }, this.view());
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.lookIfSeen();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.lookIfSeen();
  }

  protected override onUpdateRequest(message: Message): void {
    // Draw a widget that was hidden once more, so that its parts let go of what they watch.
    if (this.isVisible || this.isDrawnAsSeen) {
      this.isDrawnAsSeen = this.isVisible;
      super.onUpdateRequest(message);
    }
  }

  protected override onBeforeHide(message: Message): void {
    this.rest();
    super.onBeforeHide(message);
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.update();
  }

  protected override onBeforeDetach(message: Message): void {
    this.rest();
    this.isDrawnAsSeen = false; // React's view is unmounted
    super.onBeforeDetach(message);
  }

  private lookIfSeen(): void {
    if (this.isVisible) {
      this.look();
      this.update();
    }
  }
}

/** A widget that watches the model's jobs and clusters, and is drawn at any news of them. */
export abstract class ModelWidget extends WatchingWidget {
  private watched: IDisposable | null = null;

  constructor(protected readonly model: ISlurmModel) {
    super();
  }

  protected override look(): void {
    if (this.watched === null) {
      this.watched = this.model.watchJobs();
      this.model.changed.connect(this.hear, this);
      this.hear();
    }
  }

  protected override rest(): void {
    this.model.changed.disconnect(this.hear, this);
    this.watched?.dispose();
    this.watched = null;
  }

  /** Takes notice of the model's news. */
  protected hear(): void {
    this.update();
  }
}
