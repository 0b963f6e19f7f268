import { expect } from 'chai';
import { createAnnouncer, outboxChannel } from '../../../src/journal/announce-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { listenTo } from '../../../src/postgres/listen.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

describe('announcements of new events', () => {
  const workspace = useWorkspace();
  let db: Database;
  let heard = 0;
  before(() => {
    db = openTestDatabase(workspace());
    const listening = listenTo({
      url: workspace().endpoints.databaseUrl,
      channel: outboxChannel,
      connectTimeoutMs: 1000,
      onNotify: () => {
        heard++;
      },
      log: silentLog(),
    });
    workspace().closeAtEnd(listening.stop);
  });
  const listens = () => eventually(() => expect(heard).to.be.at.least(1));

  it('are heard in other processes, few for many', async () => {
    await listens();
    const before = heard;
    const announcer = createAnnouncer(db, { intervalMs: 50, log: silentLog() });
    for (let turn = 0; turn < 500; turn++) announcer.announce();
    await eventually(() => expect(heard - before).to.equal(2));
    await new Promise((resolve) => setTimeout(resolve, 120));
    expect(heard - before, 'after a rest with nothing new').to.equal(2);
  });

  it('are heard again after the connection broke', async () => {
    await listens();
    const kill = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'millrace-listen' and datname = current_database()`;
    await db.execute({ name: 'spec-kill', text: kill });
    const before = heard;
    await eventually(() => expect(heard).to.be.greaterThan(before));
    const announcer = createAnnouncer(db, { intervalMs: 1, log: silentLog() });
    const again = heard;
    announcer.announce();
    await eventually(() => expect(heard).to.be.greaterThan(again));
  });
});
