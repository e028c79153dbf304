// A terminal in a job as JupyterLab's terminal widget wants one: its messages, over a WebSocket of
// ours. What is said of its end is words.ts's and the plugin's.
import type { ServerConnection, Terminal } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import type { Problem } from '../wire';

/** Why nothing comes any more. */
export type End =
  { how: 'exited' | 'taken' | 'lost' | 'server-lost' } | { how: 'problem'; problem: Problem };

export interface Words {
  /** The socket's address, now; with the number that the terminal has in its job, once known. */
  url: (number: number | null) => string;
  /** What is shown under the output, line by line, when it has ended otherwise than by itself. */
  ended: (end: End) => Promise<string[]>;
  /** What the far end says beside its output. */
  said: (text: string) => string;
}

/** Ends what a program has switched on: its screen, the mouse, bracketed paste, no cursor, colours. */
const PLAIN = '\x1b[?1047l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?2004l\x1b[?25h\x1b[m';

export class JobTerminal implements Terminal.ITerminalConnection {
  readonly messageReceived = new Signal<this, Terminal.IMessage>(this);
  readonly connectionStatusChanged = new Signal<this, Terminal.ConnectionStatus>(this);
  readonly disposed = new Signal<this, void>(this);
  connectionStatus: Terminal.ConnectionStatus = 'connecting';
  isDisposed = false;
  private socket: WebSocket | null = null;
  private size: readonly unknown[] | null = null;
  private number: number | null = null;
  /** Something was said that is to be read: the tab stays. */
  private told = false;

  constructor(
    readonly name: string,
    readonly serverSettings: ServerConnection.ISettings,
    private readonly words: Words
  ) {
    this.open();
  }

  get model(): Terminal.IModel {
    return { name: this.name };
  }

  send(message: Terminal.IMessage): void {
    const words = [message.type, ...(message.content ?? [])];
    if (message.type === 'set_size') {
      this.size = words;
    }
    if (this.connectionStatus === 'connected') {
      this.socket?.send(JSON.stringify(words));
    }
  }

  /** The same one where its job keeps it, else another: what ran in this one has ended with it. */
  reconnect(): Promise<void> {
    this.leave();
    this.open();
    return Promise.resolve();
  }

  shutdown(): Promise<void> {
    this.dispose();
    return Promise.resolve();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.leave();
    this.disposed.emit();
    Signal.clearData(this);
  }

  private open(): void {
    const socket = new this.serverSettings.WebSocket(this.words.url(this.number));
    this.socket = socket;
    this.told = false;
    this.become('connecting');
    socket.onopen = () => {
      this.become('connected');
      if (this.size !== null) {
        socket.send(JSON.stringify(this.size));
      }
    };
    socket.onmessage = event =>
      this.hear(JSON.parse(event.data as string) as [string, ...unknown[]]);
    socket.onclose = () => this.end({ how: 'server-lost' });
  }

  private hear([kind, first]: [string, ...unknown[]]): void {
    switch (kind) {
      case 'stdout':
        this.show(first as string);
        break;
      case 'number':
        this.number = first as number;
        break;
      case 'said':
        this.told = true;
        this.note([this.words.said(first as string)]);
        break;
      case 'exited':
        if (this.told) {
          this.end({ how: 'lost' });
        } else {
          this.dispose();
        }
        break;
      case 'taken':
      case 'lost':
        this.end({ how: kind });
        break;
      case 'problem':
        this.end({ how: 'problem', problem: first as Problem });
        break;
    }
  }

  private end(end: End): void {
    this.leave();
    const socket = this.socket;
    void this.words.ended(end).then(lines => {
      if (!this.isDisposed && this.socket === socket) {
        this.note(lines);
      }
    });
  }

  private leave(): void {
    const socket = this.socket;
    if (socket !== null) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
    this.become('disconnected');
  }

  private note(lines: readonly string[]): void {
    if (lines.length > 0) {
      this.show(`${PLAIN}\r\n${lines.map(line => `[${line}]\r\n`).join('')}`);
    }
  }

  private show(text: string): void {
    this.messageReceived.emit({ type: 'stdout', content: [text] });
  }

  private become(status: Terminal.ConnectionStatus): void {
    if (this.connectionStatus !== status) {
      this.connectionStatus = status;
      this.connectionStatusChanged.emit(status);
    }
  }
}
