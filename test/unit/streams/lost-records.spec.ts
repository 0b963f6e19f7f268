import { expect } from 'chai';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { DriverOptions } from '../../../src/streams/testing/topology-test-driver.ts';
import { asRecord, driverOf, fact, facts } from '../../support/json-stream.ts';
import { recordingLog } from '../../support/silent-log.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;

const counting = (options: Partial<DriverOptions> = {}) =>
  driverOf(
    (t) => {
      t.stream(facts).groupByKey().count(counts, 'seen', { action: 'SEEN' });
    },
    { partitions: 2, ...options },
  );

describe('records that are gone from a topic', () => {
  const [one, other] = [
    { topic: 'facts', partition: 0 },
    { topic: 'facts', partition: 1 },
  ];
  const sendBoth = (driver: ReturnType<typeof counting>, times: number): void => {
    for (let sent = 0; sent < times; sent++) {
      driver.sendTo(one, asRecord(fact({ of: 'one' })));
      driver.sendTo(other, asRecord(fact({ of: 'other' })));
    }
  };
  const seen = (driver: ReturnType<typeof counting>) =>
    new Map(driver.table('counts').map(({ id, seen: count }) => [id, count]));

  it('stop the place whose checkpoint they lie behind, and no other', async () => {
    const { log, lines } = recordingLog();
    const stopped: number[] = [];
    const driver = counting({ logger: log, observer: { stopped: (_, places) => stopped.push(places) } });
    sendBoth(driver, 5);
    await driver.run();
    sendBoth(driver, 5);
    driver.lose(one, 8);
    await driver.run();
    expect(seen(driver)).to.deep.equal(
      new Map([
        ['one', 5],
        ['other', 10],
      ]),
    );
    expect(stopped.at(-1)).to.equal(1);
    const loud = lines.filter(({ level }) => level === 50);
    expect(
      loud.map(({ partition, checkpoint, firstOffset }) => ({ partition, checkpoint, firstOffset })),
    ).to.deep.equal([{ partition: 0, checkpoint: 5, firstOffset: 8 }]);
    expect(loud[0]?.msg).to.match(/not read any further, the others are/);
  });

  it('stop it after a restart, too, and where nothing is left to read', async () => {
    const stopped: number[] = [];
    const driver = counting({ observer: { stopped: (_, places) => stopped.push(places) } });
    sendBoth(driver, 5);
    await driver.run();
    sendBoth(driver, 5);
    driver.lose(one, 10);
    driver.restart();
    await driver.run();
    driver.restart();
    await driver.run();
    expect(seen(driver).get('one')).to.equal(5);
    expect(stopped.at(-1)).to.equal(1);
  });

  it('stop no place whose records were all read before', async () => {
    const driver = counting();
    sendBoth(driver, 5);
    await driver.run();
    driver.lose(one, 5);
    sendBoth(driver, 5);
    driver.restart();
    await driver.run();
    expect(seen(driver).get('one')).to.equal(10);
  });

  it('are not missed where the projection has never been: it begins with what is left', async () => {
    const driver = counting();
    sendBoth(driver, 5);
    driver.lose(one, 3);
    await driver.run();
    expect(seen(driver)).to.deep.equal(
      new Map([
        ['one', 2],
        ['other', 5],
      ]),
    );
  });
});
