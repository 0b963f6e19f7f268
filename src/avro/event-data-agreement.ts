import type { EventName, EventOf, EventType, eventCatalogue } from '../event-catalogue/event-catalogue.ts';
import type { PastEventType, UpcastTarget } from '../event-catalogue/upcasters.ts';
import type { EventDataByFile } from './event-data.ts';

/** The data of an event as its schema describes it. */
export type EventDataOf<Name extends EventName> =
  EventDataByFile[(typeof eventCatalogue)[Name]['schemaFile']];

/**
 * A type with its names and brands taken off, down to the last field, so that only the shape is compared. A branded id
 * counts as text: unlike a literal it can be anything, which is why an empty object is a record with such keys.
 */
type Shape<T> = T extends string
  ? Record<never, never> extends Record<T, 1>
    ? string
    : T
  : T extends readonly (infer Item)[]
    ? readonly Shape<Item>[]
    : T extends object
      ? { [Field in keyof T]: Shape<T[Field]> }
      : T;

/** Equal down to optional and readonly fields; assignable would let an additional optional field pass. */
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

type Drifted = {
  [Name in EventName]: Equal<Shape<Omit<EventOf<Name>, 'type'>>, Shape<EventDataOf<Name>>> extends true
    ? never
    : Name;
}[EventName];

/** Does not compile, and names the events, when an event or its schema was changed without the other. */
export const eventsAgreeWithTheirSchemas: [Drifted] extends [never]
  ? true
  : `${Drifted} and its schema differ` = true;

type DeadEnd = Exclude<UpcastTarget, EventType | PastEventType>;

/** Does not compile, and names the types, when an upcaster leads to a type that nobody knows. */
export const upcastersLeadToEvents: [DeadEnd] extends [never] ? true : `${DeadEnd} is no event type` = true;
