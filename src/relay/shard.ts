/** A part of the journal: the events whose partition key hashes to `number`, counted from 1, of `of`. */
export interface Shard {
  readonly number: number;
  readonly of: number;
}

/** The whole journal. */
export const singleShard: Shard = { number: 1, of: 1 };

/** What `relay_sharding` allows. */
export const shardsMax = 64;

export const mainRelayLease = 'outbox-relay-main';

/** Whoever holds it relays the shard. The number of shards is in the name: a lease of another division is another lease. */
export const leaseOfShard = ({ number, of }: Shard): string =>
  of === 1 ? mainRelayLease : `${mainRelayLease}/${number}-of-${of}`;

export const shardsOf = (count: number): readonly Shard[] =>
  Array.from({ length: count }, (_, index) => ({ number: index + 1, of: count }));

/** A condition on rows of the outbox; none where one shard has them all, so that the usual case pays nothing. */
export const inShard = ({ number, of }: Shard): string =>
  of === 1 ? '' : `and outbox_shard(partition_key, ${of}) = ${number}`;

/** Tells statements of different shards apart: a prepared statement has one text. */
export const statementSuffix = ({ number, of }: Shard): string => (of === 1 ? '' : `-${number}-of-${of}`);
