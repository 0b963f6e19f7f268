import { expect } from 'chai';
import fc from 'fast-check';
import kafkajs, { type Cluster } from 'kafkajs';
import { assignByPartitionNumber } from '../../../src/kafka/partition-assigner.ts';

const { MemberAssignment } = kafkajs.AssignerProtocol;

describe('partition assigner', () => {
  const partitionsOf: Readonly<Record<string, number>> = { orders: 6, likes: 6, views: 3 };
  const cluster = {
    findTopicPartitionMetadata: (topic: string) =>
      Array.from({ length: partitionsOf[topic] ?? 0 }, (_, partitionId) => ({ partitionId })),
  } as unknown as Cluster;
  const assigner = assignByPartitionNumber({ cluster });

  const assign = async (
    members: Readonly<Record<string, readonly string[]>>,
    topics: readonly string[] = Object.keys(partitionsOf),
  ): Promise<Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>> => {
    const assigned = await assigner.assign({
      topics: [...topics],
      members: Object.entries(members).map(([memberId, subscribed]) => ({
        memberId,
        memberMetadata: assigner.protocol({ topics: [...subscribed] }).metadata,
      })),
    });
    return Object.fromEntries(
      assigned.map(({ memberId, memberAssignment }) => [
        memberId,
        MemberAssignment.decode(memberAssignment)?.assignment ?? {},
      ]),
    );
  };

  it('gives partitions of one number to one member, all of them, and to each as many', async () => {
    const topics = Object.keys(partitionsOf);
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 8 }), async (ids) => {
        const assignment = await assign(Object.fromEntries(ids.map((id) => [id, topics])));
        const owners = new Map<number, Set<string>>();
        let count = 0;
        for (const [member, ofMember] of Object.entries(assignment)) {
          for (const partitions of Object.values(ofMember)) {
            for (const partition of partitions) {
              owners.set(partition, (owners.get(partition) ?? new Set()).add(member));
              count++;
            }
          }
        }
        expect(count).to.equal(15);
        for (const ofPartition of owners.values()) expect(ofPartition.size).to.equal(1);
        const loads = ids.map((id) => assignment[id]?.orders?.length ?? 0);
        expect(Math.max(...loads) - Math.min(...loads)).to.be.at.most(1);
      }),
      { numRuns: 50 },
    );
  });

  it('gives nothing to a member of a version that reads fewer topics: two would have one task, and fence each other', async () => {
    const assignment = await assign({ old: ['orders'], young: ['orders', 'views'] });
    expect(assignment.old).to.deep.equal({});
    expect(assignment.young).to.deep.equal({ orders: [0, 1, 2, 3, 4, 5], views: [0, 1, 2] });
  });

  it('keeps to one version where each reads a topic that the other does not, whoever has asked first', async () => {
    const wanted = { orders: [0, 1, 2, 3, 4, 5], views: [0, 1, 2] };
    const one = await assign({ a: ['likes', 'orders'], b: ['orders', 'views'], c: ['views', 'orders'] });
    expect(one.a).to.deep.equal({});
    const numbers = (member: string) => new Set(Object.values(one[member] ?? {}).flat());
    expect([...numbers('b')].filter((number) => numbers('c').has(number))).to.deep.equal([]);
    expect(await assign({ b: ['orders', 'views'], a: ['likes', 'orders'] })).to.deep.equal({
      a: {},
      b: wanted,
    });
  });

  it('never gives partitions of one number to two members, whatever they read', async () => {
    const subscription = fc.subarray(Object.keys(partitionsOf), { minLength: 1 });
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.uuid(), subscription, { minKeys: 1, maxKeys: 6 }),
        async (members) => {
          const owners = new Map<number, Set<string>>();
          for (const [member, ofMember] of Object.entries(await assign(members))) {
            for (const [topic, partitions] of Object.entries(ofMember)) {
              expect(members[member]).to.include(topic);
              for (const partition of partitions)
                owners.set(partition, (owners.get(partition) ?? new Set()).add(member));
            }
          }
          for (const ofPartition of owners.values()) expect(ofPartition.size).to.equal(1);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('leaves a topic alone that nobody knows any more', async () => {
    expect(await assign({ one: ['orders'] }, ['orders', 'views'])).to.deep.equal({
      one: { orders: [0, 1, 2, 3, 4, 5] },
    });
  });
});
