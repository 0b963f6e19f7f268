import type { DomainEvent } from '../domain/domain-event.ts';
import type { AggregateType, JournalStreamType } from '../event-catalogue/event-catalogue.ts';
import type { LoadedStream } from '../journal/load-streams.ts';
import type { StreamId } from '../journal/seal-event.ts';
import { type AggregateStates, aggregates, deciderOf } from './aggregates.ts';
import type { StreamChange, StreamView } from './command-plan.ts';

interface Held {
  readonly stream: StreamId;
  readonly state: unknown;
  readonly version: number;
  /** Where the newest snapshot stands, or 0. */
  readonly snapshotVersion: number;
}

export const streamKey = ({ aggregateType, aggregateId }: StreamId<JournalStreamType>): string =>
  `${aggregateType}/${aggregateId}`;

/** The aggregates of one batch in memory: each command sees what the ones before it have decided. */
export class WorkingSet {
  readonly #held = new Map<string, Held>();
  readonly #existing: ReadonlySet<string>;

  constructor(existing: ReadonlySet<string>) {
    this.#existing = existing;
  }

  has(stream: StreamId): boolean {
    return this.#held.has(streamKey(stream));
  }

  streamKeys(): readonly string[] {
    return [...this.#held.keys()];
  }

  begin(stream: StreamId): void {
    this.add(stream, { snapshot: undefined, events: [] });
  }

  add(stream: StreamId, { snapshot, events }: LoadedStream): void {
    const decider = deciderOf(stream.aggregateType);
    this.#held.set(streamKey(stream), {
      stream,
      state: events.reduce(decider.evolve, snapshot?.state ?? decider.initialState),
      version: (snapshot?.version ?? 0) + events.length,
      snapshotVersion: snapshot?.version ?? 0,
    });
  }

  /** Applies all of the changes, and answers with what `look` makes of them. When anything throws, none is applied. */
  apply<Answer>(changes: readonly StreamChange[], look: () => Answer): Answer {
    const before = changes.map(({ stream }) => this.#get(stream.aggregateType, stream.aggregateId));
    try {
      for (const change of changes) this.#evolve(change);
      return look();
    } catch (error) {
      for (const held of before) this.#held.set(streamKey(held.stream), held);
      throw error;
    }
  }

  #evolve({ stream, events }: StreamChange): void {
    const held = this.#get(stream.aggregateType, stream.aggregateId);
    this.#held.set(streamKey(stream), {
      ...held,
      state: events.reduce(deciderOf(stream.aggregateType).evolve, held.state),
      version: held.version + events.length,
    });
  }

  /** Streams that have grown enough since their last snapshot to deserve a new one. */
  dueForSnapshot(): readonly Held[] {
    return [...this.#held.values()].filter(({ stream, version, snapshotVersion }) => {
      const every = aggregates[stream.aggregateType].snapshotEvery;
      return every !== undefined && version - snapshotVersion >= every;
    });
  }

  readonly view: StreamView = {
    state: <Type extends AggregateType>(type: Type, id: string) =>
      this.#get(type, id).state as AggregateStates[Type],
    version: (type, id) => this.#get(type, id).version,
    exists: (type, id) => this.#existing.has(streamKey({ aggregateType: type, aggregateId: id })),
    decide: (type, id, command) => {
      const decision = deciderOf(type).decide(command, this.#get(type, id).state);
      return decision as ReturnType<StreamView['decide']> & { events: readonly DomainEvent[] };
    },
  };

  #get(aggregateType: AggregateType, aggregateId: string): Held {
    const held = this.#held.get(streamKey({ aggregateType, aggregateId }));
    if (!held)
      throw new Error(`A command looks at ${aggregateType}/${aggregateId} without having asked for it`);
    return held;
  }
}
