export interface ShareQuestion {
  readonly shards: number;
  readonly me: string;
  /** The relays that are alive, in the same order for whoever asks. */
  readonly live: readonly string[];
  /** Who has which shard, by its number; a shard that nobody has is not in it. */
  readonly holders: ReadonlyMap<number, string>;
}

export interface ShareAnswer {
  readonly take: readonly number[];
  readonly giveBack: readonly number[];
}

/**
 * What one relay has to do so that all end up with the same number of shards, give or take one. Everybody decides alone
 * from the same picture; a picture that is a little old only makes somebody ask for a lease in vain.
 */
export const fairShare = ({ shards, me, live, holders }: ShareQuestion): ShareAnswer => {
  const numbers = Array.from({ length: shards }, (_, index) => index + 1);
  const mine = numbers.filter((number) => holders.get(number) === me);
  const free = numbers.filter((number) => !holders.has(number));
  const countOf = (relay: string): number => numbers.filter((number) => holders.get(number) === relay).length;

  const least = Math.floor(shards / live.length);
  const most = Math.ceil(shards / live.length);
  /** So many relays may have `most`; the others have `least`. */
  const withMost = shards % live.length;

  const full = most > least ? live.filter((relay) => countOf(relay) >= most) : [];
  const isOneTooMany = mine.length >= most && full.indexOf(me) >= withMost;
  const keepMax = isOneTooMany ? least : most;
  if (mine.length > keepMax) return { take: [], giveBack: mine.slice(keepMax) };

  const owedToOthers = live
    .filter((relay) => relay !== me)
    .reduce((sum, relay) => sum + Math.max(0, least - countOf(relay)), 0);
  const due = Math.max(0, least - mine.length);
  const mayHaveMore = mine.length <= least && full.length < withMost && free.length - due > owedToOthers;
  const place = live.indexOf(me);
  // Everybody begins elsewhere, so that few ask for the same one.
  const offset = free.length > 0 ? (place * least) % free.length : 0;
  const inMyOrder = [...free.slice(offset), ...free.slice(0, offset)];
  return { take: inMyOrder.slice(0, due + (mayHaveMore ? 1 : 0)), giveBack: [] };
};
