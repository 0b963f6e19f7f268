import { Readable } from 'node:stream';
import { eventBlock, type LiveKind, type Portion } from './live-message.ts';

export interface Listener {
  /** Whom the messages are for: everything for those who may see everything. */
  readonly userId: string | undefined;
  readonly kinds: ReadonlySet<LiveKind>;
  /** The id of the last event it has heard; undefined for who is new. */
  readonly lastEventId: string | undefined;
  /** Tells the streams of one caller together. */
  readonly identity: string;
}

/** Why a stream ends, as the client is told. */
export type EndReason = 'too-slow' | 'time-is-up' | 'shutting-down';

/** Time to take in the reason before the connection is cut. */
const goodbyeMs = 5000;

/** One stream of events: what waits to be sent is bounded, and who does not take it in time is dropped. */
export class LiveClient {
  readonly listener: Listener;
  readonly stream: Readable;
  readonly #bufferBytesMax: number;
  readonly #onEnd: (reason: EndReason | 'left') => void;
  #isEnding = false;

  constructor(
    listener: Listener,
    options: { readonly bufferBytesMax: number; readonly onEnd: (reason: EndReason | 'left') => void },
  ) {
    this.listener = listener;
    this.#bufferBytesMax = options.bufferBytesMax;
    this.#onEnd = options.onEnd;
    this.stream = new Readable({ read: () => {} });
    this.stream.once('close', () => this.#finish('left'));
  }

  /** The part of it that is for this client. */
  ownPartOf({ kind, forAll, byOwner }: Portion): string {
    const { kinds, userId } = this.listener;
    if (!kinds.has(kind)) return '';
    return byOwner && userId !== undefined ? (byOwner.get(userId) ?? '') : forAll;
  }

  send(text: string): void {
    if (this.#isEnding || text === '') return;
    // What waits already decides, and not what comes now: there was no time yet to take that in.
    if (this.stream.readableLength > this.#bufferBytesMax) this.end('too-slow');
    else this.stream.push(text);
  }

  end(reason: EndReason): void {
    if (this.#isEnding) return;
    this.#finish(reason);
    this.stream.push(eventBlock('closed', { reason }));
    this.stream.push(null);
    const cut = setTimeout(() => this.stream.destroy(), goodbyeMs);
    this.stream.once('close', () => clearTimeout(cut));
  }

  #finish(reason: EndReason | 'left'): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#onEnd(reason);
  }
}
