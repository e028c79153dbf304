// Decides which of a browser's tabs reports news that all of them get, preferably a visible one. Knows
// no job and no notification.

/** The used part of a BroadcastChannel. Unlike Web Locks it needs no secure context. */
export interface Channel {
  postMessage(message: Claim): void;
  onmessage: ((event: MessageEvent<Claim>) => void) | null;
}

interface Claim {
  key: string;
  /** The tab with the highest rank reports; 1 and more: a visible tab. */
  rank: number;
}

/** Above every claim. */
const TOLD = Infinity;
const WAIT_MS = 250;
/** Long enough for a visible tab to get the news, too. */
const HIDDEN_WAIT_MS = 1_500;
const MOST_KEYS = 2_000;

export class News<T> {
  private readonly told = new Set<string>();
  private readonly claims = new Map<string, { rank: number; item: T }>();
  private timer = 0;

  /** `tell` gets the news of a short period at once. */
  constructor(
    private readonly channel: Channel | null,
    private readonly tell: (items: T[]) => void,
    private readonly seen = () => !document.hidden
  ) {
    if (channel !== null) {
      channel.onmessage = ({ data }) => this.hearClaim(data);
    }
  }

  /** Take news that every tab gets under the same key. */
  hear(key: string, item: T): void {
    if (this.told.has(key)) {
      return;
    }
    this.remember(key);
    const rank = this.least() + Math.random();
    this.claims.set(key, { rank, item });
    this.channel?.postMessage({ key, rank });
    if (this.timer === 0) {
      this.timer = window.setTimeout(
        () => {
          this.timer = 0;
          const claims = [...this.claims];
          this.claims.clear();
          for (const [key] of claims) {
            this.channel?.postMessage({ key, rank: TOLD }); // for a tab that was too busy
          }
          if (claims.length > 0) {
            this.tell(claims.map(([, claim]) => claim.item));
          }
        },
        this.seen() ? WAIT_MS : HIDDEN_WAIT_MS
      );
    }
  }

  private hearClaim({ key, rank }: Claim): void {
    if (rank >= (this.claims.get(key)?.rank ?? this.least())) {
      this.claims.delete(key);
      this.remember(key);
    }
  }

  /** This tab's lowest rank. */
  private least(): number {
    return this.seen() ? 1 : 0;
  }

  private remember(key: string): void {
    this.told.add(key);
    if (this.told.size > MOST_KEYS) {
      const [oldest] = this.told;
      this.told.delete(oldest ?? key);
    }
  }
}
