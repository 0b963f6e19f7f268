import kafkajs, { type Assigner, type Cluster, type GroupMember } from 'kafkajs';

// A CommonJS module: Node does not see this one among its named exports.
const { MemberAssignment, MemberMetadata } = kafkajs.AssignerProtocol;

/** Part of the protocol of the group: members that do not know this name cannot be in the same group. */
const name = 'millrace-by-partition-number';
const version = 0;

/**
 * Partitions of one number go to one member, whatever topic they belong to: records of one key are in partitions of one
 * number, and what is computed of them together is computed in one place.
 */
export const assignByPartitionNumber = ({ cluster }: { readonly cluster: Cluster }): Assigner => ({
  name,
  version,
  protocol: ({ topics }) => ({
    name,
    metadata: MemberMetadata.encode({ version, topics, userData: Buffer.alloc(0) }),
  }),
  assign: async ({ members, topics }) => {
    const subscribers = members.map(subscriberOf).sort((a, b) => (a.memberId < b.memberId ? -1 : 1));
    for (const topic of topics) {
      for (const { partitionId } of cluster.findTopicPartitionMetadata(topic)) {
        const owner = ownerOf(topic, partitionId, subscribers);
        owner?.assignment.set(topic, [...(owner.assignment.get(topic) ?? []), partitionId]);
      }
    }
    return subscribers.map(({ memberId, assignment }) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({
        version,
        assignment: Object.fromEntries(assignment),
        userData: Buffer.alloc(0),
      }),
    }));
  },
});

interface Subscriber {
  readonly memberId: string;
  readonly topics: ReadonlySet<string>;
  readonly assignment: Map<string, number[]>;
}

const subscriberOf = ({ memberId, memberMetadata }: GroupMember): Subscriber => ({
  memberId,
  topics: new Set(MemberMetadata.decode(memberMetadata)?.topics),
  assignment: new Map(),
});

/** While a version that reads one topic more is being rolled out, some members do not know that topic: they are passed over. */
const ownerOf = (
  topic: string,
  partition: number,
  subscribers: readonly Subscriber[],
): Subscriber | undefined => {
  const chosen = subscribers[partition % subscribers.length];
  if (chosen?.topics.has(topic)) return chosen;
  const able = subscribers.filter(({ topics }) => topics.has(topic));
  return able[partition % able.length];
};
