// The choice of the tab that reports news, preferably a visible tab. All tabs of a browser get the
// same news. It does not depend on jobs or notifications.

/** The used part of a BroadcastChannel. Unlike Web Locks, it needs no secure context. */
export interface Channel {
  postMessage(message: Claim): void;
  onmessage: ((event: MessageEvent<Claim>) => void) | null;
}

interface Claim {
  key: string;
  /** The tab with the highest rank reports. A visible tab has a rank of at least 1. */
  rank: number;
}

/** A rank above every claim. */
const TOLD = Infinity;
const WAIT_MS = 250;
/** Time in which a visible tab also gets the news. */
const HIDDEN_WAIT_MS = 1_500;
const MOST_KEYS = 2_000;

export class News<T> {
  private readonly told = new Set<string>();
  private readonly claims = new Map<string, { rank: number; item: T }>();
  private timer = 0;

  /** `tell` receives the news of a short period together. */
  constructor(
    private readonly channel: Channel | null,
    private readonly tell: (items: T[]) => void,
    private readonly seen = () => !document.hidden
  ) {
    if (channel !== null) {
      channel.onmessage = ({ data }) => this.hearClaim(data);
    }
  }

  /** Add news that every tab gets under the same key. */
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
            this.channel?.postMessage({ key, rank: TOLD }); // a busy tab may have missed it
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

  /** The lowest rank of this tab. */
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
