import type { DomainEvent } from '../domain/domain-event.ts';
import type { AggregateType } from '../event-catalogue/event-catalogue.ts';
import type { StreamId } from '../journal/seal-event.ts';
import type { AggregateCommands, AggregateStates } from './aggregates.ts';
import type { Rejection } from './command.ts';

/** A stream a command needs. One that this command begins under an id of its own making need not be looked for. */
export interface NeededStream extends StreamId {
  readonly isNew?: boolean;
}

/** What a command sees of the world: the aggregates it asked for, as they are when its turn comes. */
export interface StreamView {
  state<Type extends AggregateType>(type: Type, id: string): AggregateStates[Type];
  version(type: AggregateType, id: string): number;
  exists(type: AggregateType, id: string): boolean;
  /** Lets an aggregate decide, on its state as it is now. */
  decide<Type extends AggregateType>(
    type: Type,
    id: string,
    command: AggregateCommands[Type],
  ):
    | { readonly outcome: 'accepted'; readonly events: readonly DomainEvent[] }
    | { readonly outcome: 'rejected'; readonly rejection: Rejection };
}

export interface StreamChange {
  readonly stream: StreamId;
  readonly events: readonly DomainEvent[];
  /** For a stream that is named after its first event. */
  readonly firstEventId?: string;
}

export type PlanDecision<Answer> =
  | { readonly outcome: 'rejected'; readonly rejection: Rejection }
  | {
      readonly outcome: 'accepted';
      readonly changes: readonly StreamChange[];
      /** Called with the world as this command leaves it. */
      readonly answer: (after: StreamView) => Answer;
    };

/**
 * A command as data: which streams it needs, and what it decides on them. Pure, so that it can be decided again when
 * somebody else was faster, and decided beside others in one batch.
 */
export interface CommandPlan<Answer> {
  readonly streams: readonly NeededStream[];
  /** Streams that are known only once the first ones are. */
  readonly moreStreams?: (view: StreamView) => readonly NeededStream[];
  /** Streams that only have to exist; they are not loaded. */
  readonly mustExist?: readonly StreamId[];
  /** The aggregate whose version If-Match speaks of. */
  readonly target?: StreamId;
  readonly decide: (view: StreamView) => PlanDecision<Answer>;
}

export const rejected = (rejection: Rejection) => ({ outcome: 'rejected', rejection }) as const;
