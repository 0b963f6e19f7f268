import { expect } from 'chai';
import fc from 'fast-check';
import { productId, userId } from '../../../src/domain/ids.ts';
import { type Like, type LikeCommand, likeDecider } from '../../../src/domain/like/like.ts';
import { givenWith } from '../../support/given.ts';

const given = givenWith(likeDecider);
const pair = { productId: productId('p-1'), userId: userId('u-1') };
const created = { type: 'LikeCreated', ...pair } as const;
const canceled = { type: 'LikeCanceled', ...pair } as const;
const like = { type: 'LikeProduct', ...pair } as const;
const unlike = { type: 'UnlikeProduct', ...pair } as const;

describe('like', () => {
  it('is told once, however often it is given', () => {
    given().when(like).thenAccepted(created);
    given(created).when(like).thenAccepted();
  });

  it('is taken back once, and only after it was given', () => {
    given(created).when(unlike).thenAccepted(canceled);
    given(created, canceled).when(unlike).thenAccepted();
    given().when(unlike).thenAccepted();
  });

  it('can be given again', () => {
    given(created, canceled).when(like).thenAccepted(created);
  });

  it('adds up: given minus taken back is 1 when it is liked and 0 when it is not', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom<LikeCommand>(like, unlike)), (commands) => {
        let state: Like = likeDecider.initialState;
        let sum = 0;
        for (const command of commands) {
          const decision = likeDecider.decide(command, state);
          if (decision.outcome === 'rejected') throw new Error('A like is never rejected');
          for (const event of decision.events) sum += event.type === 'LikeCreated' ? 1 : -1;
          state = decision.events.reduce(likeDecider.evolve, state);
          expect(sum).to.equal(state.status === 'liked' ? 1 : 0);
        }
      }),
    );
  });
});
