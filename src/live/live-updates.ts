import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { SqlRunner } from '../postgres/database.ts';
import { type EndReason, type Listener, LiveClient } from './live-client.ts';
import { eventBlock, idBlock, kindsOf, type LiveKind, portionsOf } from './live-message.ts';
import { type LivePosition, readPosition, writePosition } from './position.ts';
import { readChanges, readPositionNow, type WhatChanged } from './read-changes.ts';

export interface LiveSettings {
  /** Shortest time between two looks: what changes several times in between is told once. */
  readonly intervalMs: number;
  readonly pollIntervalMs: number;
  readonly heartbeatMs: number;
  readonly clientsMax: number;
  readonly clientsPerCallerMax: number;
  readonly bufferBytesMax: number;
  readonly sessionMsMax: number;
}

export interface LiveObserver {
  clients(count: number): void;
  told(kind: LiveKind, messages: number): void;
  joined(how: 'new' | 'resumed' | 'reset'): void;
  ended(reason: EndReason | 'left'): void;
}

export type Subscription =
  | { readonly kind: 'open'; readonly stream: Readable }
  | { readonly kind: 'refused'; readonly reason: 'process-full' | 'caller-full' };

export interface LiveUpdates {
  subscribe(listener: Listener): Subscription;
  /** Ends every stream with its reason, and takes no more. */
  close(): Promise<void>;
}

export interface LiveUpdatesOptions {
  readonly database: SqlRunner;
  /** Calls back when something may have changed; opened with the first client. */
  readonly listen: (onNews: () => void) => { stop(): Promise<void> };
  readonly settings: LiveSettings;
  readonly observer: LiveObserver;
  readonly log: Logger;
}

/** Changes that one who comes back is told one by one; who has missed more had better ask anew. */
const missedKeysMax = 5000;
/** Where a client that was cut off waits before it comes back. */
const reconnectMs = 2000;

export const createLiveUpdates = (options: LiveUpdatesOptions): LiveUpdates => new LiveHub(options);

/** Follows the changes once for all clients of a process, as long as there is one. */
class LiveHub implements LiveUpdates {
  readonly #options: LiveUpdatesOptions;
  /** Those who hear everything from the position on. */
  readonly #clients = new Set<LiveClient>();
  /** Those who are still to be told where they stand. */
  readonly #joining = new Set<LiveClient>();
  readonly #byCaller = new Map<string, number>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #position: LivePosition | undefined;
  #listening: { stop(): Promise<void> } | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #following: Promise<void> | undefined;
  #isClosing = false;
  #isTroubled = false;
  #wake: (() => void) | undefined;
  #hasNews = false;

  constructor(options: LiveUpdatesOptions) {
    this.#options = options;
  }

  subscribe(listener: Listener): Subscription {
    const { settings, observer } = this.#options;
    const ofCaller = this.#byCaller.get(listener.identity) ?? 0;
    if (ofCaller >= settings.clientsPerCallerMax) return { kind: 'refused', reason: 'caller-full' };
    if (this.#isClosing || this.#size >= settings.clientsMax)
      return { kind: 'refused', reason: 'process-full' };
    const client: LiveClient = new LiveClient(listener, {
      bufferBytesMax: settings.bufferBytesMax,
      onEnd: (reason) => this.#forget(client, timer, reason),
    });
    const timer = setTimeout(() => client.end('time-is-up'), settings.sessionMsMax);
    this.#timers.add(timer);
    this.#byCaller.set(listener.identity, ofCaller + 1);
    this.#joining.add(client);
    observer.clients(this.#size);
    client.send(`retry: ${reconnectMs}\n\n`);
    this.#begin();
    return { kind: 'open', stream: client.stream };
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    for (const client of [...this.#clients, ...this.#joining]) client.end('shutting-down');
    for (const timer of this.#timers) clearTimeout(timer);
    clearInterval(this.#heartbeat);
    this.#news();
    await this.#listening?.stop();
    await this.#following;
  }

  get #size(): number {
    return this.#clients.size + this.#joining.size;
  }

  #forget(client: LiveClient, timer: NodeJS.Timeout, reason: EndReason | 'left'): void {
    const { observer } = this.#options;
    const { identity } = client.listener;
    clearTimeout(timer);
    this.#timers.delete(timer);
    this.#clients.delete(client);
    this.#joining.delete(client);
    const left = (this.#byCaller.get(identity) ?? 1) - 1;
    if (left > 0) this.#byCaller.set(identity, left);
    else this.#byCaller.delete(identity);
    observer.clients(this.#size);
    observer.ended(reason);
  }

  #begin(): void {
    const { settings } = this.#options;
    this.#listening ??= this.#options.listen(() => this.#news());
    this.#heartbeat ??= setInterval(() => this.#beat(), settings.heartbeatMs);
    this.#following ??= this.#follow();
    this.#news();
  }

  /** Keeps connections alive that nothing happens on, and lets them know how far they have heard. */
  #beat(): void {
    if (!this.#position) return;
    const block = idBlock(writePosition(this.#position));
    for (const client of this.#clients) client.send(block);
  }

  #news(): void {
    this.#hasNews = true;
    this.#wake?.();
  }

  async #follow(): Promise<void> {
    const { settings, log } = this.#options;
    while (!this.#isClosing) {
      const startedMs = performance.now();
      try {
        await this.#look();
        if (this.#isTroubled) log.warn('Live updates go on');
        this.#isTroubled = false;
      } catch (error) {
        if (!this.#isTroubled) log.warn({ err: error }, 'Changes cannot be read: live updates wait');
        this.#isTroubled = true;
      }
      // Without clients there is nothing to look for, however long.
      if (this.#size > 0) await this.#sleep(settings.pollIntervalMs);
      else await this.#sleep(undefined);
      const restMs = startedMs + settings.intervalMs - performance.now();
      if (restMs > 0 && !this.#isClosing) await pause(restMs);
    }
  }

  /** Until there is news, or for so long at most. */
  async #sleep(timeMs: number | undefined): Promise<void> {
    if (!this.#hasNews && !this.#isClosing) {
      await new Promise<void>((resolve) => {
        const timer = timeMs === undefined ? undefined : setTimeout(resolve, timeMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#wake = undefined;
    this.#hasNews = false;
  }

  async #look(): Promise<void> {
    if (this.#size === 0) {
      this.#position = undefined;
      return;
    }
    const { database } = this.#options;
    const from = this.#clients.size > 0 ? this.#position : undefined;
    if (from) await this.#tellAll(from);
    else this.#position = await readPositionNow(database);
    await this.#welcome();
  }

  async #tellAll(from: LivePosition): Promise<void> {
    const { database } = this.#options;
    const changes = await readChanges(database, from);
    const id = writePosition(changes.to);
    if (changes.kind === 'lost') {
      const block = eventBlock('reset', { reason: changes.reason }, id);
      for (const client of this.#clients) client.send(block);
    } else {
      await this.#tell(changes, this.#clients, id);
    }
    this.#position = changes.to;
  }

  /** Only the last of what belongs together carries the id: who is cut off before hears all of it again. */
  async #tell({ keys, replaced }: WhatChanged, clients: ReadonlySet<LiveClient>, id: string): Promise<void> {
    const { database, observer } = this.#options;
    // First of all: what is told after it is newer than what the client asks for then, or the same.
    const heard = tellReplaced(kindsOf(replaced), clients);
    for await (const portion of portionsOf(database, keys)) {
      for (const client of clients) {
        const text = client.ownPartOf(portion);
        client.send(text);
        if (text !== '') heard.add(client);
      }
      observer.told(portion.kind, portion.messages);
    }
    const block = idBlock(id);
    for (const client of heard) client.send(block);
  }

  /** After the position was read: what the newcomers have to hear before ends no earlier than where the others are. */
  async #welcome(): Promise<void> {
    const { observer } = this.#options;
    const here = this.#position;
    if (!here) return;
    for (const [lastEventId, clients] of Map.groupBy(this.#joining, ({ listener }) => listener.lastEventId)) {
      if (lastEventId !== undefined) await this.#resume(lastEventId, new Set(clients));
      else {
        for (const client of clients) {
          client.send(eventBlock('ready', { resumed: false }, writePosition(here)));
          observer.joined('new');
          this.#admit(client);
        }
      }
    }
  }

  async #resume(lastEventId: string, clients: ReadonlySet<LiveClient>): Promise<void> {
    const { database, observer } = this.#options;
    const missed = await readMissed(database, lastEventId);
    const id = writePosition(missed.to);
    if (missed.kind === 'known') await this.#tell(missed, clients, id);
    for (const client of clients) {
      client.send(
        missed.kind === 'known'
          ? eventBlock('ready', { resumed: true }, id)
          : eventBlock('reset', { reason: missed.reason }, id),
      );
      observer.joined(missed.kind === 'known' ? 'resumed' : 'reset');
      this.#admit(client);
    }
  }

  #admit(client: LiveClient): void {
    // It may have gone in the meantime.
    if (this.#joining.delete(client)) this.#clients.add(client);
  }
}

/** Answers with those whom it concerned. */
const tellReplaced = (kinds: readonly LiveKind[], clients: ReadonlySet<LiveClient>): Set<LiveClient> => {
  const told = new Set<LiveClient>();
  for (const client of clients) {
    const own = kinds.filter((kind) => client.listener.kinds.has(kind));
    if (own.length === 0) continue;
    client.send(eventBlock('reset', { reason: 'model-replaced', kinds: own }));
    told.add(client);
  }
  return told;
};

type Missed =
  | ({ readonly kind: 'known'; readonly to: LivePosition } & WhatChanged)
  | { readonly kind: 'lost'; readonly to: LivePosition; readonly reason: string };

const readMissed = async (database: SqlRunner, lastEventId: string): Promise<Missed> => {
  const from = readPosition(lastEventId);
  if (!from) return { kind: 'lost', reason: 'unknown-position', to: await readPositionNow(database) };
  const changes = await readChanges(database, from);
  if (changes.kind === 'lost') return changes;
  const count = Object.values(changes.keys).reduce((sum, keys) => sum + keys.length, 0);
  return count > missedKeysMax ? { kind: 'lost', reason: 'too-much', to: changes.to } : changes;
};
