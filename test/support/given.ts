import { expect } from 'chai';
import type { Decider } from '../../src/domain/decider.ts';

/** Given these events, when this command comes, then: the way deciders are specified. */
export const givenWith =
  <Command, State, Event, Rejection>(decider: Decider<Command, State, Event, Rejection>) =>
  (...history: readonly Event[]) => ({
    when: (command: Command) => {
      const state = history.reduce(decider.evolve, decider.initialState);
      const decision = decider.decide(command, state);
      return {
        thenAccepted: (...events: readonly Event[]) =>
          expect(decision).to.deep.equal({ outcome: 'accepted', events }),
        thenRejected: (rejection: Rejection) =>
          expect(decision).to.deep.equal({ outcome: 'rejected', rejection }),
      };
    },
  });
