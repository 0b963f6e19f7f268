import { defineScript } from 'redis';

// A product lies under its key as `kept <version> <json>`, a change of which only the version is known as
// `changed <version>`. Scripts, because each has to look and to act in one step.

const versionOf = `
  local function versionOf(entry) return tonumber(string.match(entry, '^%a+ (%d+)')) end
  local known = redis.call('GET', KEYS[1])`;

type Reply<T> = () => T;

export const findProduct = defineScript({
  NUMBER_OF_KEYS: 2,
  SCRIPT: `
    local known = redis.call('GET', KEYS[1])
    if known and string.sub(known, 1, 5) == 'kept ' then return known end
    if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 'load' end
    return 'wait'`,
  parseCommand(parser, keys: CacheKeys, lease: string, leaseMs: number) {
    parser.pushKeys([keys.entry, keys.lease]);
    parser.push(lease, String(leaseMs));
  },
  transformReply: undefined as unknown as Reply<string>,
});

export const keepProduct = defineScript({
  NUMBER_OF_KEYS: 2,
  SCRIPT: `${versionOf}
    if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
    if known and versionOf(known) > tonumber(ARGV[2]) then return 0 end
    redis.call('SET', KEYS[1], 'kept ' .. ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
    return 1`,
  parseCommand(parser, keys: CacheKeys, lease: string, version: number, json: string, ttlMs: number) {
    parser.pushKeys([keys.entry, keys.lease]);
    parser.push(lease, String(version), json, String(ttlMs));
  },
  transformReply: undefined as unknown as Reply<number>,
});

export const releaseLease = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0`,
  parseCommand(parser, keys: CacheKeys, lease: string) {
    parser.pushKey(keys.lease);
    parser.push(lease);
  },
  transformReply: undefined as unknown as Reply<number>,
});

export const forgetProduct = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `${versionOf}
    if known and versionOf(known) >= tonumber(ARGV[1]) then return 0 end
    redis.call('SET', KEYS[1], 'changed ' .. ARGV[1], 'PX', ARGV[2])
    return 1`,
  parseCommand(parser, keys: CacheKeys, version: number, changesMs: number) {
    parser.pushKey(keys.entry);
    parser.push(String(version), String(changesMs));
  },
  transformReply: undefined as unknown as Reply<number>,
});

export interface CacheKeys {
  readonly entry: string;
  readonly lease: string;
}

/** The braces keep both keys of a product on one node of a cluster. */
export const cacheKeysOf = (prefix: string, productId: string): CacheKeys => {
  const entry = `${prefix}millrace:product:{${productId}}`;
  return { entry, lease: `${entry}:lease` };
};
