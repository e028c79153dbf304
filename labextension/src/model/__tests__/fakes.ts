// A fake WebSocket. It records sent messages, and the test supplies the answers.
import type { ServerConnection } from '@jupyterlab/services';

interface Sent {
  watch?: number;
  unwatch?: number;
  call?: string;
  args?: Record<string, unknown>;
  cursor?: string;
  paced?: boolean;
  taken?: number;
}

export class FakeSocket {
  static readonly OPEN = 1;
  static all: FakeSocket[] = [];
  readyState = 0;
  readonly sent: Sent[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }

  static get last(): FakeSocket {
    const found = FakeSocket.all.at(-1);
    if (found === undefined) {
      throw new Error('No socket was opened.');
    }
    return found;
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Sent);
  }

  close(): void {
    this.readyState = 3;
  }

  /** The server accepts the connection. */
  open(): this {
    this.readyState = FakeSocket.OPEN;
    this.onopen?.();
    return this;
  }

  say(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  /** The connection fails. */
  break(): void {
    this.readyState = 3;
    this.onclose?.();
  }
}

export const settings = {
  baseUrl: 'http://here/',
  wsUrl: 'ws://here/',
  appendToken: true,
  token: 'a b',
  WebSocket: FakeSocket
} as unknown as ServerConnection.ISettings;

export function hideTab(hidden: boolean): void {
  Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}
