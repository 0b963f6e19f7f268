/**
 * An aggregate as three pure functions. A rejected command is a value with a reason;
 * an exception from one of these functions is a bug.
 */
export interface Decider<Command, State, Event, Rejection> {
  readonly initialState: State;
  readonly decide: (command: Command, state: State) => Decision<Event, Rejection>;
  readonly evolve: (state: State, event: Event) => State;
}

export type Decision<Event, Rejection> =
  | { readonly outcome: 'accepted'; readonly events: readonly Event[] }
  | { readonly outcome: 'rejected'; readonly rejection: Rejection };

export const accept = <Event>(...events: readonly Event[]): Decision<Event, never> => ({
  outcome: 'accepted',
  events,
});

export const reject = <Rejection>(rejection: Rejection): Decision<never, Rejection> => ({
  outcome: 'rejected',
  rejection,
});
