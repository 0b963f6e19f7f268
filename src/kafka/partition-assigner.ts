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
    const chosen = ofOneVersion(subscribers);
    for (const topic of topics.filter((name) => chosen[0]?.topics.has(name))) {
      for (const { partitionId } of cluster.findTopicPartitionMetadata(topic)) {
        const owner = chosen[partitionId % chosen.length];
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

/**
 * While a version that reads other topics is being rolled out, members do not all know the same ones. What one number has
 * belongs together, so only those of one version are given anything: those that read the most. The others wait until they
 * are replaced, or are the only ones left.
 */
const ofOneVersion = (subscribers: readonly Subscriber[]): readonly Subscriber[] => {
  const versions = [...Map.groupBy(subscribers, ({ topics }) => [...topics].sort().join(' '))];
  const [most] = versions.sort(
    ([one, [a]], [other, [b]]) => (b?.topics.size ?? 0) - (a?.topics.size ?? 0) || (one < other ? 1 : -1),
  );
  return most?.[1] ?? [];
};
