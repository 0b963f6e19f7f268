import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { pauseRelay, resumeRelay } from '../../../src/relay/pause.ts';
import { startStallWatch } from '../../../src/relay/stall/watch-stalls.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { createMemoryBroker, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { type LogLine, recordingLog, silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const settings = { stallAfterMs: 200, slotLagBytesMax: 1e12 };

describe('the watch over late events', () => {
  const workspace = useWorkspace();
  let db: Database;
  const relays = useRelays(() => db, silentLog());
  const watches: { stop(): Promise<void> }[] = [];
  before(() => {
    db = openTestDatabase(workspace(), 8);
  });
  afterEach(async () => {
    for (const watch of watches.splice(0)) await watch.stop();
  });
  const watchAs = (holder: string): LogLine[] => {
    const { log, lines } = recordingLog();
    watches.push(startStallWatch({ database: db, settings, holder, log }));
    return lines;
  };
  const said = (lines: readonly LogLine[]) => lines.map(({ msg }) => msg.split('.')[0]);

  it('tells once what it is, what it has become, and that it is over; one process does', async () => {
    const first = watchAs('a');
    const second = watchAs('b');
    const all = () => said([...first, ...second]);
    await appendEvents(db, [viewOf('late', 1)]);
    const nobody = 'Events are late: No process relays, and none stands by';
    await eventually(() => expect(all()).to.deep.equal([nobody]));

    await pauseRelay(db, { by: 'ann', because: 'broker upgrade' });
    await eventually(() => expect(all()).to.have.length(2));
    expect(all()[1]).to.match(/^Events are late: The relay is paused since/);
    await resumeRelay(db);
    const broker = createMemoryBroker();
    relays.startMain('r', broker);
    await eventually(() => expect(all().at(-1)).to.equal('Events are on time again'));
    // Whatever it was for a moment between the two, it was told as a change and not again and again.
    expect(new Set(all()).size).to.equal(all().length);
    expect(Math.min(first.length, second.length), 'told by the other one').to.equal(0);
  });

  it('is taken over by another process', async () => {
    const first = watchAs('a');
    await appendEvents(db, [viewOf('late', 2)]);
    await eventually(() => expect(first).to.have.length(1));
    const second = watchAs('b');
    await watches.shift()?.stop();
    await eventually(() => expect(second).to.have.length(1));
    expect(said(second)).to.deep.equal(said(first));
  });
});
