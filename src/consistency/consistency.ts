import type { TopicName } from '../event-catalogue/topic-name.ts';
import type { AwaitedEvent } from '../journal/consistency-token.ts';
import type { Awaited, WaitingRoom } from './waiting-room.ts';

/** How far a model is that does not have what was asked for. */
export interface NotCaughtUp {
  readonly model: string;
  readonly awaited: number;
  readonly missing: number;
  /** The time of the newest event it has seen; null before the first. */
  readonly reachedAt: Date | null;
}

export interface ConsistencyQuestion {
  readonly events: readonly AwaitedEvent[];
  /** What is about to be read. */
  readonly models: readonly string[];
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

export interface Consistency {
  /** Waits until the models have the events. Undefined when they do, otherwise the one that is behind. */
  waitFor(question: ConsistencyQuestion): Promise<NotCaughtUp | undefined>;
  /** Nobody waits any longer: this process is about to end. */
  close(): void;
}

export interface ConsistencyOptions {
  readonly room: Pick<WaitingRoom, 'wait' | 'close'>;
  /** What a model is made of: it does not have to wait for anything else. */
  readonly topicsOf: (model: string) => ReadonlySet<TopicName>;
  readonly bucketOf: (timeMs: number) => number;
  readonly modelTime: (model: string) => Promise<Date | null>;
}

export const createConsistency = ({
  room,
  topicsOf,
  bucketOf,
  modelTime,
}: ConsistencyOptions): Consistency => ({
  waitFor: async ({ events, models, waitMs, signal }) => {
    const awaited = models.flatMap((model): readonly Awaited[] => {
      const topics = topicsOf(model);
      return events
        .filter(({ topic }) => topics.has(topic))
        .map(({ eventId, occurredAtMs }) => ({ model, eventId, bucketStartMs: bucketOf(occurredAtMs) }));
    });
    const missing = await room.wait(awaited, { waitMs, ...(signal && { signal }) });
    const [first] = missing;
    if (!first) return undefined;
    const ofModel = ({ model }: Awaited): boolean => model === first.model;
    return {
      model: first.model,
      awaited: awaited.filter(ofModel).length,
      missing: missing.filter(ofModel).length,
      reachedAt: await modelTime(first.model),
    };
  },
  close: () => room.close(),
});
