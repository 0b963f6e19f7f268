import type { RefusedKind } from './read-parked-events.ts';
import type { StallFacts, StallShard } from './read-stall-facts.ts';
import type { StallReason } from './stall-reason.ts';

export interface StallSettings {
  /** From this age on an event is late. */
  readonly stallAfterMs: number;
  /** Log that the server may keep for the slot before it is worth a word. */
  readonly slotLagBytesMax: number;
}

/** Why events are late, from what was found in the database; nothing when they are not. What explains most comes first. */
export const explainStall = (facts: StallFacts, settings: StallSettings): readonly StallReason[] => {
  const { refused, single } = facts.parked;
  const isLate = (since: Date | null): boolean =>
    since !== null && facts.now.getTime() - since.getTime() >= settings.stallAfterMs;
  const late = facts.shards.filter(({ oldestPendingAt }) => isLate(oldestPendingAt));
  return [
    // Who waits this long for a lock is late with whatever it wanted to do.
    ...facts.transactions.filter(({ effect }) => effect !== 'its-events-wait'),
    ...reasonsOfShards(facts, late, settings),
    ...refused.filter(({ oldestAt }) => isLate(oldestAt)).map(reasonOfRefusal),
    ...(single && isLate(single.oldestAt) ? [{ kind: 'parked' as const, ...withoutAge(single) }] : []),
    // These are late before anybody can see that they are there.
    ...facts.transactions.filter(({ effect }) => effect === 'its-events-wait'),
    ...laggingSlot(facts, settings),
  ];
};

const withoutAge = <T extends { readonly oldestAt: Date }>({ oldestAt: _, ...parked }: T) => parked;

const reasonOfRefusal = ({ refusal, events, aggregates, dead }: RefusedKind): StallReason => {
  const { kind, ...refused } = refusal;
  const figures = { events, aggregates, dead };
  // The compiler cannot follow which of the two it is through the rest.
  return { kind: `${kind}-refused`, ...refused, ...figures } as StallReason;
};

/** A reason that makes others is told alone: where the relay is paused, nobody has a lease either. */
const reasonsOfShards = (
  facts: StallFacts,
  late: readonly StallShard[],
  settings: StallSettings,
): readonly StallReason[] => {
  // What waits cannot be told from such a position, so its age is no condition.
  if (facts.shards.some(({ isForeign }) => isForeign)) return [{ kind: 'foreign-cursor' }];
  if (late.length === 0) return [];
  if (facts.pause) return [{ kind: 'paused', ...facts.pause }];
  if (lostSlot(facts).length > 0) return lostSlot(facts);
  if (facts.relays.length === 0 && facts.shards.every(({ lease }) => lease === null)) {
    return [{ kind: 'no-relay' }];
  }
  const found = [...withoutOwner(facts, late), ...toldByRelays(facts)];
  if (found.length > 0) return found;
  const isBlocked = facts.transactions.some(({ effect }) => effect !== 'its-events-wait');
  return isBlocked ? [] : movement(facts, late, settings);
};

const lostSlot = ({ slot }: StallFacts): readonly StallReason[] =>
  slot && (slot.walStatus === 'lost' || slot.walStatus === 'missing')
    ? [{ kind: 'slot-lost', slot: slot.slot }]
    : [];

const withoutOwner = ({ relays }: StallFacts, late: readonly StallShard[]): readonly StallReason[] => {
  const free = late.filter(({ lease }) => lease === null);
  const alive = relays.filter(({ isAlive }) => isAlive).length;
  const [first] = free;
  if (!first || alive === 0) return [];
  const shards = free.map(({ number }) => number);
  return [{ kind: 'without-owner', shards, of: first.of, relays: alive }];
};

const toldByRelays = ({ relays }: StallFacts): readonly StallReason[] =>
  relays.flatMap(({ name, circuit, circuitSince, troubles }): readonly StallReason[] => {
    const isOpen = circuit === 'open' || (circuit === 'half-open' && troubles.length > 0);
    if (!isOpen) return troubles.map((trouble) => ({ kind: 'relay-trouble', relay: name, ...trouble }));
    const lastError = troubles[0]?.error ?? null;
    return [{ kind: 'circuit-open', relay: name, since: circuitSince, lastError }];
  });

/** Nobody complains: it is only much, or nobody reads the log, or whoever has the lease is not there any more. */
const movement = (
  { now, slot }: StallFacts,
  late: readonly StallShard[],
  { stallAfterMs }: StallSettings,
): readonly StallReason[] => {
  const moving = late.filter(({ movedAt }) => movedAt && now.getTime() - movedAt.getTime() < stallAfterMs);
  const standing = late.filter((shard) => !moving.includes(shard));
  const movedAt = moving.map((shard) => shard.movedAt).sort((a, b) => Number(b) - Number(a))[0];
  const pending = moving.reduce((sum, shard) => sum + shard.pending, 0);
  return [
    ...(standing.length > 0 && slot && !slot.active
      ? [{ kind: 'slot-inactive' as const, slot: slot.slot, lagBytes: slot.lagBytes }]
      : standing.flatMap(silentHolder)),
    ...(movedAt ? [{ kind: 'behind' as const, pending, movedAt }] : []),
  ];
};

const silentHolder = ({ lease, movedAt }: StallShard): readonly StallReason[] =>
  lease
    ? [{ kind: 'holder-silent', lease: lease.name, holder: lease.holder, until: lease.until, movedAt }]
    : [];

const laggingSlot = ({ slot }: StallFacts, { slotLagBytesMax }: StallSettings): readonly StallReason[] =>
  slot?.lagBytes && slot.lagBytes > slotLagBytesMax
    ? [{ kind: 'slot-lagging', slot: slot.slot, lagBytes: slot.lagBytes }]
    : [];
