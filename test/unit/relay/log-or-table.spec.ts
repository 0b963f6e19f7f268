import { expect } from 'chai';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Lease } from '../../../src/relay/lease.ts';
import type { OutboxPage, OutboxSource } from '../../../src/relay/outbox-source.ts';
import type { LogLoss } from '../../../src/relay/wal/log-loss.ts';
import { createLogOrTable } from '../../../src/relay/wal/log-or-table.ts';
import { SlotLost } from '../../../src/relay/wal/slot.ts';
import { NoStoredPosition } from '../../../src/relay/wal/wal-source.ts';
import { recordingLog } from '../../support/silent-log.ts';

const lease: Lease = { name: 'spec', token: 1, lapsedFrom: null };
const pageOfNothing = (): OutboxPage => ({ rows: [] });

/** A source whose pages, troubles and answers a test decides. */
const fakeSource = () => {
  const fake = {
    page: pageOfNothing() as OutboxPage | undefined,
    trouble: undefined as Error | undefined,
    settled: Promise.resolve(true),
    settleCount: 0,
  };
  const source: OutboxSource = {
    nextPage: async () => {
      if (fake.trouble) throw fake.trouble;
      return fake.page;
    },
    pageAfter: async () => undefined,
    settle: () => {
      fake.settleCount += 1;
      return fake.settled;
    },
    forget: () => undefined,
    close: async () => undefined,
  };
  return Object.assign(fake, { source });
};

const createScene = () => {
  const { log: logger, lines } = recordingLog();
  const log = fakeSource();
  const table = fakeSource();
  const stored = { loss: null as LogLoss | null, position: true };
  const scene = {
    log,
    table,
    stored,
    nowMs: 0,
    refusal: undefined as Error | undefined,
    beginCount: 0,
    givenUp: [] as Lease[],
    warnings: () => lines.filter(({ level }) => level >= 40).map(({ msg }) => msg),
  };
  const source = createLogOrTable({
    log: log.source,
    table: table.source,
    findLoss: async () => stored.loss,
    hasPosition: async () => stored.position,
    beginLog: async () => {
      scene.beginCount += 1;
      if (scene.refusal) throw scene.refusal;
      stored.position = true;
    },
    giveLogUp: async (lost, underLease) => {
      scene.givenUp.push(underLease);
      stored.position = false;
      stored.loss = { slot: 'spec', reason: lost.message, since: new Date(1) };
    },
    clock: () => scene.nowMs,
    logger,
  });
  return Object.assign(scene, { source });
};

describe('reading the log, or the table while there is none', () => {
  const lost = () => new SlotLost({ slot: 'spec', how: 'missing' });

  it('reads the log where a position is stored', async () => {
    const scene = createScene();
    expect(await scene.source.nextPage(1, lease)).to.equal(scene.log.page);
    expect(scene.beginCount).to.equal(0);
  });

  it('goes on in the table when the slot is lost, and says so once', async () => {
    const scene = createScene();
    const { source, log, table } = scene;
    log.trouble = lost();
    expect(await source.nextPage(1, lease)).to.equal(table.page);
    source.forget();
    expect(await source.nextPage(1, lease)).to.equal(table.page);
    expect(scene.givenUp).to.deep.equal([lease]);
    expect(scene.warnings()).to.have.length(1);
    expect(scene.warnings()[0]).to.match(/by snapshots.*is gone.*Nothing is lost.*relay use-wal/);
  });

  it('stays with the table until the loss is forgotten, and makes a new slot then', async () => {
    const scene = createScene();
    const { source, log, table, stored } = scene;
    stored.loss = { slot: 'spec', reason: 'it is gone', since: new Date(1) };
    stored.position = false;
    expect(await source.nextPage(1, lease)).to.equal(table.page);
    stored.loss = null;
    expect(await source.nextPage(1, lease), 'nothing was forgotten').to.equal(table.page);
    source.forget();
    expect(await source.nextPage(1, lease)).to.equal(log.page);
    expect(scene.beginCount).to.equal(1);
  });

  it('makes a new slot when somebody has removed the position', async () => {
    const scene = createScene();
    const { source, log, stored } = scene;
    await source.nextPage(1, lease);
    stored.position = false;
    log.trouble = new NoStoredPosition('none');
    const asked = source.nextPage(1, lease);
    log.trouble = undefined;
    expect(await asked).to.equal(log.page);
    expect(scene.beginCount).to.equal(1);
    expect(scene.warnings()).to.deep.equal([]);
  });

  it('gives the log up only when what is being settled has an answer', async () => {
    const scene = createScene();
    const { source, log } = scene;
    const page = (await source.nextPage(1, lease)) as OutboxPage;
    const answer = Promise.withResolvers<boolean>();
    log.settled = answer.promise;
    const settling = source.settle(page, 0, [], lease);
    log.trouble = lost();
    const next = source.nextPage(1, lease);
    await new Promise(setImmediate);
    expect(scene.givenUp).to.deep.equal([]);
    answer.resolve(true);
    await Promise.all([settling, next]);
    expect(scene.givenUp).to.have.length(1);
  });

  it('settles each page with the source that gave it', async () => {
    const { source, log, table } = createScene();
    const ofLog = (await source.nextPage(1, lease)) as OutboxPage;
    log.trouble = lost();
    table.page = pageOfNothing();
    const ofTable = (await source.nextPage(1, lease)) as OutboxPage;
    await source.settle(ofTable, 0, [], lease);
    expect([log.settleCount, table.settleCount]).to.deep.equal([0, 1]);
    await source.settle(ofLog, 0, [], lease);
    expect([log.settleCount, table.settleCount]).to.deep.equal([1, 1]);
  });

  it('reads the table while no slot can be made, and tries again when it is between two pages', async () => {
    const scene = createScene();
    const { source, log, table, stored } = scene;
    stored.position = false;
    scene.refusal = new OperatorError('older transactions are open', { remedy: 'end them' });
    expect(await source.nextPage(1, lease)).to.equal(table.page);
    scene.nowMs = 60_000;
    expect(await source.nextPage(1, lease), 'a page is under way').to.equal(table.page);
    table.page = undefined;
    await source.nextPage(1, lease);
    await source.nextPage(1, lease);
    expect(scene.beginCount).to.equal(2);
    expect(scene.warnings(), 'told once').to.have.length(1);
    scene.refusal = undefined;
    scene.nowMs = 120_000;
    await source.nextPage(1, lease);
    expect(await source.nextPage(1, lease)).to.equal(log.page);
  });

  it('leaves other troubles to whoever asks', async () => {
    const { source, log, givenUp } = createScene();
    log.trouble = new Error('connection refused');
    expect(await source.nextPage(1, lease).catch((error: Error) => error.message)).to.equal(
      'connection refused',
    );
    expect(givenUp).to.deep.equal([]);
  });
});
