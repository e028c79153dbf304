// One WebSocket for all watches. It opens with the first watch, reconnects after a failure, and
// closes while the tab is hidden. It does not depend on any call or view.
import type { ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { unreachable, watchUrl } from '../server';
import type { Problem } from '../wire';

/** A value of a call, with the cursor after it. */
interface Value {
  cursor: string;
}

export interface Listener<T extends Value> {
  value(value: T): void;
  /** Reports that updates fail until the next value arrives. */
  problem(problem: Problem): void;
}

export interface WatchOptions {
  /** True to watch also while the tab is hidden. */
  background?: boolean;
  /** The cursor from which to continue; undefined for the beginning. */
  cursor?: string;
  /** The server sends the next value only after `taken`. */
  paced?: boolean;
}

/** A watch, until it is disposed of. */
export interface Watching extends IDisposable {
  /** Acknowledge the last value of a paced watch, once it is on the screen. */
  taken(): void;
}

interface Watch {
  call: string;
  args: Record<string, unknown>;
  cursor: string;
  background: boolean;
  paced: boolean;
  listener: Listener<Value>;
}

interface Message {
  watch?: number;
  value?: Value;
  problem?: Problem;
}

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 30_000;
const CHECK_MS = 5_000;
/** The server sends a message at least every 15 s. */
const SILENT_MS = 20_000;

export class WatchSocket implements IDisposable {
  private readonly watches = new Map<number, Watch>();
  private socket: WebSocket | null = null;
  private next = 1;
  private retries = 0;
  private retryTimer = 0;
  private checkTimer = 0;
  private heard = 0;

  constructor(private readonly settings: ServerConnection.ISettings) {
    document.addEventListener('visibilitychange', this.adapt);
    window.addEventListener('online', this.again);
  }

  isDisposed = false;

  dispose(): void {
    this.isDisposed = true;
    document.removeEventListener('visibilitychange', this.adapt);
    window.removeEventListener('online', this.again);
    this.watches.clear();
    this.close();
  }

  /** Send the value of `call` and its changes to `listener` until disposed of. */
  watch<T extends Value>(
    call: string,
    args: Record<string, unknown>,
    listener: Listener<T>,
    options: WatchOptions = {}
  ): Watching {
    const id = this.next++;
    const watch: Watch = {
      call,
      args,
      cursor: options.cursor ?? '',
      background: options.background ?? false,
      paced: options.paced ?? false,
      listener
    };
    this.watches.set(id, watch);
    if (this.socket?.readyState === WebSocket.OPEN && wanted(watch)) {
      this.send(id, watch);
    } else {
      this.adapt();
    }
    const taken = (): void => {
      if (this.watches.has(id)) {
        this.say({ taken: id });
      }
    };
    const end = new DisposableDelegate(() => {
      if (this.watches.delete(id)) {
        this.say({ unwatch: id });
        this.adapt();
      }
    });
    return Object.assign(end, { taken });
  }

  private readonly adapt = (): void => {
    const any = [...this.watches.values()].some(wanted);
    if (!any) {
      this.close();
    } else if (this.socket === null) {
      this.open();
    } else if (this.socket.readyState === WebSocket.OPEN) {
      for (const [id, watch] of this.watches) {
        if (!wanted(watch)) {
          this.say({ unwatch: id });
        }
      }
      if (!document.hidden) {
        // Resume the watches that stopped while the tab was hidden.
        for (const [id, watch] of this.watches) {
          if (!watch.background) {
            this.send(id, watch);
          }
        }
      }
    }
  };

  private readonly again = (): void => {
    this.close();
    this.retries = 0;
    this.adapt();
  };

  private open(): void {
    window.clearTimeout(this.retryTimer);
    const socket = new this.settings.WebSocket(watchUrl(this.settings));
    this.socket = socket;
    this.heard = Date.now();
    this.checkTimer = window.setInterval(this.check, CHECK_MS);
    socket.onopen = () => {
      for (const [id, watch] of this.watches) {
        if (wanted(watch)) {
          this.send(id, watch);
        }
      }
    };
    socket.onmessage = event => {
      this.heard = Date.now();
      this.retries = 0;
      this.hear(JSON.parse(event.data as string) as Message);
    };
    socket.onclose = () => {
      if (this.socket === socket) {
        this.lost();
      }
    };
  }

  /** After a sleep or a network failure, no socket closes. Detect its silence. */
  private readonly check = (): void => {
    if (Date.now() - this.heard > SILENT_MS) {
      this.close();
      this.lost();
    }
  };

  private lost(): void {
    this.close();
    for (const watch of this.watches.values()) {
      watch.listener.problem(unreachable());
    }
    const longest = Math.min(FIRST_RETRY_MS * 2 ** this.retries++, LONGEST_RETRY_MS);
    this.retryTimer = window.setTimeout(this.adapt, longest * (0.5 + Math.random() / 2));
  }

  private close(): void {
    window.clearTimeout(this.retryTimer);
    window.clearInterval(this.checkTimer);
    const socket = this.socket;
    this.socket = null;
    if (socket !== null) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  private send(id: number, { call, args, cursor, paced }: Watch): void {
    this.say({ watch: id, call, args, cursor, paced });
  }

  private say(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify(message));
    }
  }

  private hear({ watch: id, value, problem }: Message): void {
    const watch = id === undefined ? undefined : this.watches.get(id);
    if (watch === undefined) {
      return; // the message is for a watch that was just closed, or keeps the connection alive
    }
    if (value !== undefined) {
      watch.cursor = value.cursor;
      watch.listener.value(value);
    } else if (problem !== undefined) {
      watch.listener.problem(problem);
    }
  }
}

function wanted(watch: Watch): boolean {
  return watch.background || !document.hidden;
}
