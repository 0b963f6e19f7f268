import { expect } from 'chai';
import { Membership } from '../../../src/kafka/membership.ts';
import { RecordQueue } from '../../../src/kafka/record-queue.ts';
import type { StartOffset } from '../../../src/streams/ports.ts';
import type { Place } from '../../../src/streams/record.ts';
import { eventually } from '../../support/eventually.ts';
import { recordingLog } from '../../support/silent-log.ts';

const places: readonly Place[] = [
  { topic: 'a', partition: 0 },
  { topic: 'b', partition: 0 },
];

describe('membership', () => {
  const create = (options: {
    onAssigned: (places: readonly Place[]) => Promise<readonly StartOffset[]>;
    startFrom?: 'earliest' | 'latest';
    heldPlaces?: () => Promise<readonly Place[]>;
  }) => {
    const { log, lines } = recordingLog();
    const events: string[] = [];
    const known: unknown[] = [];
    const queue = new RecordQueue({
      bytesMax: 1_000_000,
      onOutOfRange: () => undefined,
      onDamage: () => undefined,
      onStartedByGroup: () => {},
    });
    const membership = new Membership({
      queue,
      handlers: {
        onAssigned: async (assigned) => {
          events.push(`assigned ${assigned.length}`);
          return options.onAssigned(assigned);
        },
        onRevoked: () => events.push('revoked'),
        onGone: () => false,
      },
      startFrom: options.startFrom ?? 'earliest',
      retryDelayMs: 1,
      onKnown: (offsets) => known.push(...offsets),
      heldPlaces: options.heldPlaces ?? (async () => []),
      topicIds: async () => new Map(places.map(({ topic }) => [topic, `id of ${topic}`])),
      log,
    });
    /** What would be fetched now. */
    const fetched = (): readonly string[] => {
      const planned = queue.plan({
        maxWaitTime: 1,
        maxBytes: 1,
        topics: places.map(({ topic, partition }) => ({
          topic,
          partitions: [{ partition, fetchOffset: '42', maxBytes: 1 }],
        })),
      });
      return (planned?.call.topics ?? []).map(
        ({ topic, partitions }) => `${topic}@${partitions[0]?.fetchOffset}`,
      );
    };
    return { membership, events, known, fetched, lines };
  };
  const at = (offset: number | undefined) => async (assigned: readonly Place[]) =>
    assigned.map((place) => ({ ...place, offset }));

  it('fetches from where it was told to', async () => {
    const { membership, fetched, known } = create({ onAssigned: at(7) });
    membership.join(places);
    expect(fetched(), 'nothing before the answer').to.deep.equal([]);
    await eventually(() => expect(fetched()).to.deep.equal(['a@7', 'b@7']));
    expect(known).to.have.length(2);
    expect(known[0]).to.include({ ...places[0], offset: 7 });
  });

  it('begins with everything there is where nobody has been, whatever the group says', async () => {
    const { membership, fetched, known } = create({ onAssigned: at(undefined) });
    membership.join(places);
    await eventually(() => expect(fetched()).to.deep.equal(['a@0', 'b@0']));
    expect(known).to.deep.equal([]);
  });

  it('begins where the group stands when only what is new is wanted', async () => {
    const { membership, fetched } = create({ onAssigned: at(undefined), startFrom: 'latest' });
    membership.join(places);
    await eventually(() => expect(fetched()).to.deep.equal(['a@42', 'b@42']));
  });

  it('does not read places that are held, and asks for all of them anew when they are free', async () => {
    let held: readonly Place[] = places.slice(1);
    const { membership, events, fetched } = create({ onAssigned: at(7), heldPlaces: async () => held });
    membership.join(places);
    await eventually(() => expect(fetched()).to.deep.equal(['a@7']));
    expect(events).to.deep.equal(['assigned 1']);
    held = [];
    await eventually(() => expect(fetched()).to.deep.equal(['a@7', 'b@7']));
    expect(events).to.deep.equal(['assigned 1', 'revoked', 'assigned 2']);
  });

  it('reads nothing as long as no place may be read, and says why once', async () => {
    let refusal: Error | undefined = new Error('partitions were added');
    const { membership, events, fetched, lines } = create({
      onAssigned: at(7),
      heldPlaces: async () => {
        if (refusal) throw refusal;
        return [];
      },
    });
    membership.join(places);
    await eventually(() => expect(lines.map(({ level }) => level)).to.deep.equal([50]));
    expect([events, fetched()]).to.deep.equal([[], []]);
    refusal = undefined;
    await eventually(() => expect(fetched()).to.deep.equal(['a@7', 'b@7']));
  });

  it('tells that places are gone once, and only if there were any', async () => {
    const { membership, events, fetched } = create({ onAssigned: at(7) });
    membership.leave();
    expect(events).to.deep.equal([]);
    membership.join(places);
    await eventually(() => expect(fetched()).to.have.length(2));
    membership.leave();
    membership.leave();
    expect(fetched()).to.deep.equal([]);
    expect(events).to.deep.equal(['assigned 2', 'revoked']);
  });

  it('asks again until it gets an answer, and says so once', async () => {
    let tries = 0;
    const { membership, fetched, lines } = create({
      onAssigned: async (assigned) => {
        if (++tries < 4) throw new Error('database away');
        return at(3)(assigned);
      },
    });
    membership.join(places);
    await eventually(() => expect(fetched()).to.deep.equal(['a@3', 'b@3']));
    expect(lines.map(({ level }) => level)).to.deep.equal([50, 40]);
  });

  it('does not ask any more for places that are gone', async () => {
    let tries = 0;
    const { membership } = create({
      onAssigned: async () => {
        tries++;
        throw new Error('database away');
      },
    });
    membership.join(places);
    await eventually(() => expect(tries).to.be.above(1));
    membership.leave();
    const triesThen = tries;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(tries).to.be.at.most(triesThen + 1);
  });

  it('forgets an answer that comes after the next assignment, and does not let it overtake', async () => {
    const answers: (() => void)[] = [];
    const asked: number[] = [];
    const { membership, fetched, events } = create({
      onAssigned: (assigned) => {
        const offset = asked.push(assigned.length) * 100;
        return new Promise((resolve) => {
          answers.push(() => resolve(assigned.map((place) => ({ ...place, offset }))));
        });
      },
    });
    membership.join(places);
    await eventually(() => expect(answers).to.have.length(1));
    membership.join(places.slice(0, 1));
    expect(events).to.deep.equal(['assigned 2', 'revoked']);
    answers[0]?.();
    await eventually(() => expect(answers).to.have.length(2));
    expect(fetched()).to.deep.equal([]);
    answers[1]?.();
    await eventually(() => expect(fetched()).to.deep.equal(['a@200']));
  });
});
