export interface BreakerSettings {
  /** Calls that are looked back on. */
  readonly windowCalls: number;
  /** Fewer calls than these say nothing yet. */
  readonly callsMin: number;
  readonly failureRatePercent: number;
  readonly openMs: number;
  /** Calls let through after that, to see how things are; one failure is enough to open again. */
  readonly trialCalls: number;
}

export type BreakerState = 'closed' | 'open' | 'half-open';

export interface BreakerChange {
  readonly from: BreakerState;
  readonly to: BreakerState;
}

/** Nothing may be sent for now. Whoever meets it is as much in trouble as before, and knows no more of why. */
export class CircuitOpen extends Error {
  override readonly name = 'CircuitOpen';
  readonly waitMs: number;

  constructor(waitMs: number) {
    super('The circuit to Kafka is open');
    this.waitMs = waitMs;
  }
}

/** While all trials are out their answers may come at any moment, or not for as long as a send may take. */
const trialsOutWaitMs = 100;

/**
 * Keeps the relay from hammering brokers that are in trouble. Asked before each send, told the result after it. Libraries
 * offer one trial call; the specification wants several, and a hand-moved clock makes this testable.
 */
export class CircuitBreaker {
  readonly #settings: BreakerSettings;
  readonly #clock: () => number;
  readonly #onChange: (change: BreakerChange) => void;
  #results: boolean[] = [];
  #state: BreakerState = 'closed';
  #openedAt = 0;
  #failingSince: number | undefined;
  #trialsLeft = 0;
  #trialsToPass = 0;

  constructor(options: {
    settings: BreakerSettings;
    clock: () => number;
    onChange: (change: BreakerChange) => void;
  }) {
    this.#settings = options.settings;
    this.#clock = options.clock;
    this.#onChange = options.onChange;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** Milliseconds until it is worth asking again; 0 when it is now. */
  get waitMs(): number {
    if (this.#state === 'open') return Math.max(0, this.#openedAt + this.#settings.openMs - this.#clock());
    return this.#state === 'half-open' && this.#trialsLeft === 0 ? trialsOutWaitMs : 0;
  }

  /** Milliseconds since the first of the calls that have failed with none in between that succeeded; 0 when the last one did. */
  get failingMs(): number {
    return this.#failingSince === undefined ? 0 : Math.max(1, this.#clock() - this.#failingSince);
  }

  /** Permission for one call. Every permission is answered by `succeeded` or `failed`. */
  permits(): boolean {
    if (this.#state === 'open' && this.waitMs === 0) {
      this.#trialsLeft = this.#settings.trialCalls;
      this.#trialsToPass = this.#settings.trialCalls;
      this.#moveTo('half-open');
    }
    if (this.#state === 'closed') return true;
    if (this.#state === 'open' || this.#trialsLeft === 0) return false;
    this.#trialsLeft--;
    return true;
  }

  succeeded(): void {
    this.#failingSince = undefined;
    if (this.#state === 'half-open') {
      this.#trialsToPass--;
      if (this.#trialsToPass === 0) {
        this.#results = [];
        this.#moveTo('closed');
      }
      return;
    }
    this.#remember(true);
  }

  failed(): void {
    this.#failingSince ??= this.#clock();
    if (this.#state === 'half-open') {
      this.#open();
      return;
    }
    this.#remember(false);
    const { callsMin, failureRatePercent } = this.#settings;
    const failures = this.#results.filter((success) => !success).length;
    const isTooMany = failures * 100 >= this.#results.length * failureRatePercent;
    if (this.#state === 'closed' && this.#results.length >= callsMin && isTooMany) this.#open();
  }

  #remember(success: boolean): void {
    this.#results.push(success);
    if (this.#results.length > this.#settings.windowCalls) this.#results.shift();
  }

  #open(): void {
    this.#openedAt = this.#clock();
    this.#moveTo('open');
  }

  #moveTo(to: BreakerState): void {
    const from = this.#state;
    this.#state = to;
    if (from !== to) this.#onChange({ from, to });
  }
}
