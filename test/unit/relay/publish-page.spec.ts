import { expect } from 'chai';
import fc from 'fast-check';
import { envelopeSchemas } from '../../../src/avro/envelope-schema.ts';
import { PublishError } from '../../../src/kafka/publish-error.ts';
import { IncompatibleSchema } from '../../../src/registry/incompatible-schema.ts';
import { CircuitBreaker } from '../../../src/relay/circuit-breaker.ts';
import type { OutboxRow } from '../../../src/relay/outbox-source.ts';
import {
  type PageOutcome,
  type PublishPorts,
  preparePage,
  publishPage,
  publishPrepared,
} from '../../../src/relay/publish-page.ts';
import { createJudgingBroker, labelOf, type Objection, rowsOf } from '../../support/judging-broker.ts';

const schemas: PublishPorts['schemas'] = {
  find: async (fingerprint) => {
    const found = [...envelopeSchemas.values()].find(
      (schema) => schema.fingerprint === fingerprint.toString('hex'),
    );
    if (!found) throw new Error('No such schema');
    return found;
  },
};

const registry = { idOf: async () => 1, writerType: () => Promise.reject(new Error('not asked')) };

const createPorts = (producer: PublishPorts['producer']): PublishPorts => ({
  producer,
  registry,
  schemas,
  physicalTopic: (topic) => topic,
  headersOf: () => undefined,
  publishTimeoutMs: 1000,
  breaker: new CircuitBreaker({
    settings: { windowCalls: 10, callsMin: 5, failureRatePercent: 50, openMs: 1000, trialCalls: 3 },
    clock: () => 0,
    onChange: () => {},
  }),
});

const failedLabels = ({ failed }: PageOutcome): readonly string[] => failed.map(({ row }) => labelOf(row));
const triedLabels = ({ failed }: PageOutcome): readonly string[] =>
  failed.filter(({ tried }) => tried).map(({ row }) => labelOf(row));
const numbered = (count: number, suffix = ''): readonly string[] =>
  Array.from({ length: count }, (_, index) => `a${index}${suffix}@1`);

describe('publishing a page', () => {
  const given = (...labels: readonly string[]) => {
    const rows = rowsOf(...labels);
    const broker = createJudgingBroker(rows);
    const ports = createPorts(broker.producer);
    return { rows, broker, ports, publish: (held = new Set<string>()) => publishPage(ports, rows, held) };
  };

  it('takes one send when nothing is wrong', async () => {
    const { broker, publish } = given(...numbered(100), ...numbered(100, '-stock'));
    expect(await publish()).to.deep.equal({ settledCount: 200, failed: [] });
    expect(broker.sends).to.have.length(1);
  });

  it('splits until the bad one stands alone, with its aggregate behind it', async () => {
    const { broker, publish } = given(...numbered(60), 'bad@1', 'bad@2', ...numbered(60, '-stock'), 'bad@3');
    broker.moods.objection = (label) => (label === 'bad@1' ? 'RECORD_TOO_LARGE' : undefined);
    const outcome = await publish();
    expect(outcome).to.include({ settledCount: 123 }).and.not.have.property('stopped');
    expect(failedLabels(outcome)).to.deep.equal(['bad@1', 'bad@2', 'bad@3']);
    expect(triedLabels(outcome)).to.deep.equal(['bad@1']);
    expect(broker.arrived).to.have.members([...numbered(60), ...numbered(60, '-stock')]);
    expect(broker.sends.length).to.be.lessThan(20);
  });

  it('sends nothing again that arrived beside what was refused', async () => {
    const { broker, publish } = given(...numbered(30), 'bad@1', ...numbered(30, '-stock'));
    broker.moods.objection = (label) => (label === 'bad@1' ? 'REFUSED' : undefined);
    await publish();
    expect(new Set(broker.arrived).size).to.equal(broker.arrived.length);
    expect(broker.arrived).to.have.length(60);
  });

  it('goes on behind a page that failed in part, although it was made ready before', async () => {
    const { rows, broker, ports } = given('bad@1', 'good@1', 'bad@2', 'good@2', 'good-stock@1', 'bad@3');
    broker.moods.objection = (label) => (label === 'bad@1' ? 'REFUSED' : undefined);
    const [first, second] = [rows.slice(0, 2), rows.slice(2)];
    // As the relay does it: the second is encoded while the first is on its way, and learns afterwards who is held.
    const [ready, ahead] = [await preparePage(ports, first), await preparePage(ports, second)];
    const before = await publishPrepared(ports, ready, { held: new Set() });
    expect(failedLabels(before)).to.deep.equal(['bad@1']);
    const after = await publishPrepared(ports, ahead, { held: new Set(['ProductView/bad']) });
    expect(failedLabels(after)).to.deep.equal(['bad@2', 'bad@3']);
    expect(triedLabels(after)).to.deep.equal([]);
    expect(broker.arrived).to.deep.equal(['good@1', 'good@2', 'good-stock@1']);
  });

  it('leaves everything where it is while the brokers are in trouble', async () => {
    const { broker, publish } = given(...numbered(10));
    broker.moods.receive = () => {
      throw new PublishError('BROKER_UNAVAILABLE', { retriable: true });
    };
    const outcome = await publish();
    expect(outcome).to.deep.include({ settledCount: 0, failed: [] });
    expect(outcome.stopped?.because).to.equal('broker-trouble');
    expect(broker.sends).to.have.length(1);
  });

  it('sends only the rest again when one of the leaders was not there', async () => {
    const { rows, broker, ports } = given(...numbered(30), ...numbered(30, '-stock'));
    broker.moods.objection = (label) => (label === 'a1@1' ? 'BROKER_UNAVAILABLE' : undefined);
    const first = await publishPrepared(ports, await preparePage(ports, rows), { held: new Set() });
    expect(first).to.deep.include({ settledCount: 0, failed: [] });
    expect(first.arrived?.size).to.equal(broker.arrived.length).and.to.be.within(1, 59);
    broker.moods.objection = () => undefined;
    const known = { held: new Set<string>(), arrived: first.arrived ?? new Set() };
    const again = await publishPrepared(ports, await preparePage(ports, rows), known);
    expect(again).to.include({ settledCount: 60 }).and.not.have.property('stopped');
    expect(broker.arrived).to.have.members(rows.map(labelOf)).and.to.have.length(60);
  });

  describe('with a topic that takes nothing', () => {
    it('fails its rows at once and sends the others with the next send', async () => {
      const stock = numbered(1000, '-stock');
      const { broker, publish } = given(...stock, ...numbered(1000), 'a1-stock@2');
      broker.moods.refusedTopics.set('stock-events', 'missing');
      const outcome = await publish();
      expect(outcome).to.include({ settledCount: 2001 }).and.not.have.property('stopped');
      expect(failedLabels(outcome)).to.deep.equal([...stock, 'a1-stock@2']);
      expect(triedLabels(outcome)).to.deep.equal(stock);
      expect(outcome.failed[0]?.error).to.equal('Topic stock-events does not exist');
      expect(broker.arrived).to.have.members(numbered(1000));
      expect(broker.sends).to.have.length(2);
    });

    it('tries nothing more when there are no others', async () => {
      const { broker, publish } = given(...numbered(50, '-stock'));
      broker.moods.refusedTopics.set('stock-events', 'forbidden');
      const outcome = await publish();
      expect(failedLabels(outcome)).to.have.length(50);
      expect(outcome.failed[0]?.error).to.equal('Topic stock-events must not be written to');
      expect(broker.sends).to.have.length(1);
    });

    it('still finds the bad one of another topic', async () => {
      const { broker, publish } = given(...numbered(8, '-stock'), ...numbered(8), 'bad@1');
      broker.moods.refusedTopics.set('stock-events', 'invalid');
      broker.moods.objection = (label) => (label === 'bad@1' ? 'RECORD_TOO_LARGE' : undefined);
      const outcome = await publish();
      expect(failedLabels(outcome)).to.deep.equal([...numbered(8, '-stock'), 'bad@1']);
      expect(broker.arrived).to.have.members(numbered(8));
    });
  });

  describe('with an error that nobody knows', () => {
    it('takes it for trouble of the brokers when no record gets through, and puts nothing aside', async () => {
      const { broker, publish } = given(...numbered(1000), ...numbered(1000, '-stock'));
      broker.moods.objection = () => 'UNKNOWN';
      const outcome = await publish();
      expect(outcome).to.deep.include({ settledCount: 0, failed: [] });
      expect(outcome.stopped?.because).to.equal('broker-trouble');
      expect(outcome.stopped?.cause?.message).to.contain('UNKNOWN');
      expect(broker.sends.length).to.be.lessThan(10);
    });

    it('opens the circuit for it as for any trouble of the brokers, and not for a bad record', async () => {
      const { ports, broker, publish } = given(...numbered(30));
      broker.moods.objection = (label) => (label === 'a7@1' ? 'UNKNOWN' : undefined);
      for (let turn = 0; turn < 5; turn++) await publish();
      expect(ports.breaker.state).to.equal('closed');
      broker.moods.objection = () => 'UNKNOWN';
      for (let turn = 0; turn < 5; turn++) await publish();
      expect(ports.breaker.state).to.equal('open');
    });

    it('blames the record when others get through', async () => {
      const { broker, publish } = given(...numbered(30), 'bad@1', 'bad@2');
      broker.moods.objection = (label) => (label.startsWith('bad') ? 'UNKNOWN' : undefined);
      const outcome = await publish();
      expect(outcome).to.include({ settledCount: 32 }).and.not.have.property('stopped');
      expect(failedLabels(outcome)).to.deep.equal(['bad@1', 'bad@2']);
      expect(broker.arrived).to.have.members(numbered(30));
    });

    it('blames the record when nothing else is there to judge by', async () => {
      const { broker, publish } = given('bad@1', 'bad@2');
      broker.moods.objection = () => 'UNKNOWN';
      expect(failedLabels(await publish())).to.deep.equal(['bad@1', 'bad@2']);
    });

    it('blames the records when the brokers judge another one', async () => {
      const { broker, publish } = given('odd@1', 'huge@1');
      broker.moods.objection = (label) => (label === 'huge@1' ? 'RECORD_TOO_LARGE' : 'UNKNOWN');
      expect(failedLabels(await publish())).to.deep.equal(['odd@1', 'huge@1']);
    });
  });

  it('lets an event whose schema the registry refuses wait alone', async () => {
    const { rows, broker, ports } = given('a-stock@1', 'a@1', 'b-stock@1', 'a-stock@2', 'b@1');
    const refusing: PublishPorts['registry'] = {
      ...registry,
      idOf: async (subject) => {
        if (subject.startsWith('stock-events')) throw new IncompatibleSchema(subject, ['stock (removed)']);
        return 1;
      },
    };
    const outcome = await publishPage({ ...ports, registry: refusing }, rows, new Set());
    expect(outcome.settledCount).to.equal(5);
    expect(failedLabels(outcome)).to.deep.equal(['a-stock@1', 'b-stock@1', 'a-stock@2']);
    expect(triedLabels(outcome)).to.deep.equal(['a-stock@1', 'b-stock@1']);
    expect(outcome.failed.every(({ dead }) => !dead)).to.equal(true);
    expect(outcome.failed[0]?.error).to.equal(
      'The registry refuses the schema of loopers.stock.adjusted.v1 (subject stock-events-loopers.stock.StockAdjustedV1Envelope): stock (removed)',
    );
    expect(broker.arrived).to.deep.equal(['a@1', 'b@1']);
  });

  it('blames no row while the registry does not answer', async () => {
    const { rows, ports } = given('a@1');
    const away = { ...registry, idOf: () => Promise.reject(new Error('connect ECONNREFUSED')) };
    const failure = await publishPage({ ...ports, registry: away }, rows, new Set()).catch(
      (error: Error) => error,
    );
    expect(failure).to.be.instanceOf(Error).and.have.property('message', 'connect ECONNREFUSED');
  });

  const aggregates = ['a', 'b', 'c', 'd-stock', 'e-stock'];
  /** Places in a page, each of some aggregate, which makes the versions. */
  const page = fc
    .array(fc.constantFrom(...aggregates), { minLength: 1, maxLength: 40 })
    .map((chosen) =>
      chosen.map(
        (aggregate, index) =>
          `${aggregate}@${chosen.slice(0, index + 1).filter((other) => other === aggregate).length}`,
      ),
    );
  const objections = fc.array(
    fc.record({
      place: fc.nat(39),
      code: fc.constantFrom<Objection>('REFUSED', 'RECORD_TOO_LARGE', 'UNKNOWN'),
    }),
    { maxLength: 10 },
  );
  const refused = fc.option(fc.constantFrom('stock-events', 'product-view-events'), { nil: undefined });
  const troubleAt = fc.option(fc.nat(12), { nil: undefined });

  it('keeps the order of every aggregate and loses no row, whatever is refused', async () => {
    await fc.assert(
      fc.asyncProperty(page, objections, refused, troubleAt, async (labels, against, topic, failingSend) => {
        const { rows, broker, publish } = given(...labels);
        const bad = new Map(against.map(({ place, code }) => [labels[place], code]));
        broker.moods.objection = (label) => bad.get(label);
        if (topic) broker.moods.refusedTopics.set(topic, 'missing');
        broker.moods.receive = () => {
          if (broker.sends.length - 1 === failingSend)
            throw new PublishError('BROKER_UNAVAILABLE', { retriable: true });
        };
        judgeOutcome(rows, broker.arrived, await publish());
      }),
      { numRuns: 500 },
    );
  });

  const judgeOutcome = (rows: readonly OutboxRow[], arrived: readonly string[], outcome: PageOutcome) => {
    const { settledCount, failed, stopped } = outcome;
    const failedSet = new Set(failedLabels(outcome));
    expect(settledCount === rows.length, 'stopped exactly when there is a rest').to.equal(!stopped);
    expect(new Set(arrived).size, 'each at most once').to.equal(arrived.length);
    for (const label of arrived) expect(failedSet.has(label), `${label} failed and arrived`).to.equal(false);
    for (const row of rows.slice(0, settledCount)) {
      const label = labelOf(row);
      expect(failedSet.has(label) !== arrived.includes(label), `${label} has one answer`).to.equal(true);
    }
    for (const { row } of failed) expect(rows.indexOf(row)).to.be.lessThan(settledCount);
    for (const aggregate of aggregates) {
      const versions = rows.map(labelOf).filter((label) => label.startsWith(`${aggregate}@`));
      const inKafka = arrived.filter((label) => label.startsWith(`${aggregate}@`));
      expect(inKafka, 'in order and without a gap').to.deep.equal(versions.slice(0, inKafka.length));
    }
  };
});
