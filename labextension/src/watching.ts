// A widget that watches data only while it is visible. It reduces attaching, showing, hiding and
// detaching to `look` and `rest`. Its view is loaded when it is first visible, and drawn while it
// is visible. `useSeen` tells the parts of the view whether it is visible.
import { ReactWidget } from '@jupyterlab/ui-components';
import type { IDisposable } from '@lumino/disposable';
import type { Message } from '@lumino/messaging';
import { createContext, createElement, useContext, type JSX } from 'react';
import type { ISlurmModel } from './tokens';

const SeenContext = createContext(true);

/** Return whether the widget is visible. If it is not, watch nothing and run no clock. */
export function useSeen(): boolean {
  return useContext(SeenContext);
}

export abstract class WatchingWidget extends ReactWidget {
  private isDrawnAsSeen = false;

  override dispose(): void {
    this.rest();
    super.dispose();
  }

  /** Called when the widget may be visible, possibly repeatedly. */
  protected abstract look(): void;

  /** Called when the widget is hidden, possibly repeatedly. */
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
    // Draw a hidden widget once more, so that its parts stop watching.
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
    this.isDrawnAsSeen = false; // this unmounts React's view
    super.onBeforeDetach(message);
  }

  private lookIfSeen(): void {
    if (this.isVisible) {
      this.look();
      this.update();
    }
  }
}

/** A widget that watches the model's jobs and clusters. Each change draws it. */
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

  /** Handle a change of the model. */
  protected hear(): void {
    this.update();
  }
}
