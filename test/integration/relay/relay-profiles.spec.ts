import { expect } from 'chai';
import { loadConfig } from '../../../src/config/load-config.ts';
import type { RelayProfile } from '../../../src/config/relay-profiles.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { claimDueRows } from '../../../src/relay/failed-rows.ts';
import { acquireLease } from '../../../src/relay/lease.ts';
import { storeFailedRows } from '../../../src/relay/store-failed-rows.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const seconds = (...values: readonly number[]): number[] => values.map((value) => value * 1000);

/** Pauses after each try that fails, as the documents describe them. */
const expected: Readonly<Record<RelayProfile, readonly number[]>> = {
  commerce: seconds(1, 2, 4, 8, 16, 32, 64, 128, 256, 300),
  'order-service': [100, 200, 400, 800, 1600],
  donation: seconds(30, 60, 120),
  ledger: seconds(1, 2, 4, 8, 16),
  transfer: seconds(2, 4, 8, 16, 32),
};

describe('relay profiles', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace());
  });

  let nextId = 1;
  for (const [profile, pauses] of Object.entries(expected)) {
    it(`${profile} retries ${pauses.length} times and backs off ${pauses.join(', ')} ms`, async () => {
      const { relay } = loadConfig({ env: { RELAY_PROFILE: profile }, envFile: '/dev/null' }).config;
      expect(relay.retriesMax).to.equal(pauses.length);
      const lease = await acquireLease(db, { name: 'spec', holder: 'spec', holdMs: 60_000 });
      if (!lease) throw new Error('Nobody else wants it');
      await db.execute({ name: 'spec-clear', text: 'delete from outbox_failed' });
      const { stream, version, ...rest } = viewOf(profile, 1);
      const row = { id: nextId++, ...rest, ...stream, aggregateVersion: version, createdAt: new Date(0) };
      await storeFailedRows(db, [{ row, error: 'no', tried: true }]);

      // A clock that this test moves: to the moment a retry is due, and a moment before it.
      let now = new Date(Date.now() + 60_000);
      const claim = (at: Date) => claimDueRows(db, { rowsMax: 1, ...relay, lease, now: at });
      const seen: number[] = [];
      for (const pause of pauses) {
        expect(await claim(now)).to.have.length(1);
        expect(await claim(new Date(now.getTime() + pause - 1)), `${pause} ms are not over`).to.have.length(
          0,
        );
        seen.push(pause);
        now = new Date(now.getTime() + pause);
      }
      expect(await claim(now)).to.have.length(1);
      expect(seen).to.deep.equal(pauses);
    });
  }
});
