import { expect } from 'chai';
import { createModelFills, type ModelFillsOptions } from '../../../src/app/fill-models.ts';
import { FillNeedsDecision } from '../../../src/rebuild/fill-live.ts';
import { RebuildUnderWay } from '../../../src/rebuild/one-rebuild.ts';
import type { RebuildReport } from '../../../src/rebuild/rebuild-projection.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { Topology } from '../../../src/streams/topology.ts';
import { eventually } from '../../support/eventually.ts';
import { facts, specTopology } from '../../support/json-stream.ts';
import { recordingLog } from '../../support/silent-log.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
const rebuildable = (name: string): Topology =>
  specTopology(
    (t) => {
      t.stream(facts).groupByKey().count(counts, 'seen', { action: 'SEEN' });
    },
    { name },
  );
const callsOut = specTopology(
  (t) => {
    t.stream(facts).call('tell', async () => {});
  },
  { name: 'teller' },
);
const report = { build: 2, events: 7, seconds: 1 } as RebuildReport;

describe('read models that lack what the topics have lost', () => {
  const create = (options: Partial<ModelFillsOptions>) => {
    const { log, lines } = recordingLog();
    const filled: string[] = [];
    const fills = createModelFills({
      fill: async () => report,
      isAutomatic: true,
      retryDelayMs: 1,
      onFilling: () => {},
      onFilled: (projection) => filled.push(projection),
      log,
      ...options,
    });
    const errors = () => lines.filter(({ level }) => level === 50).map(({ msg }) => msg);
    return { fills, filled, lines, errors };
  };

  it('are filled once, however often it is noticed, and one after the other', async () => {
    let atOnce = 0;
    let most = 0;
    const begun: string[] = [];
    const { fills, filled } = create({
      fill: async ({ name }) => {
        begun.push(name);
        most = Math.max(most, ++atOnce);
        await new Promise((resolve) => setImmediate(resolve));
        atOnce--;
        return report;
      },
    });
    const [one, other] = [rebuildable('one'), rebuildable('other')];
    for (const topology of [one, other, one, other]) fills.lacking(topology);
    await eventually(() => expect(filled).to.deep.equal(['one', 'other']));
    expect(begun).to.deep.equal(['one', 'other']);
    expect(most).to.equal(1);
    fills.lacking(one);
    await eventually(() => expect(begun, 'a second loss').to.deep.equal(['one', 'other', 'one']));
    await fills.stop();
  });

  it('are waited for while another process fills them, which stops nothing else', async () => {
    let tries = 0;
    const { fills, filled } = create({
      fill: async ({ name }) => {
        if (name === 'one' && ++tries === 1)
          throw new RebuildUnderWay('Somebody else is rebuilding one', { remedy: 'wait' });
        return name === 'one' ? undefined : report;
      },
    });
    fills.lacking(rebuildable('one'));
    fills.lacking(rebuildable('other'));
    await eventually(() => expect(filled).to.deep.equal(['other', 'one']));
    await fills.stop();
  });

  it('are tried again after trouble', async () => {
    let tries = 0;
    const { fills, filled, errors } = create({
      fill: async () => {
        if (++tries < 4) throw new Error('the database is away');
        return report;
      },
    });
    fills.lacking(rebuildable('one'));
    await eventually(() => expect(filled).to.deep.equal(['one']));
    expect(errors()).to.have.length(3);
    await fills.stop();
  });

  it('are left alone when somebody has to decide, until the projection runs again', async () => {
    let tries = 0;
    const { fills, errors } = create({
      fill: async () => {
        tries++;
        throw new FillNeedsDecision('Events could not be applied', { remedy: 'npx millrace rebuild one' });
      },
    });
    const one = rebuildable('one');
    fills.lacking(one);
    await eventually(() => expect(errors()).to.have.length(1));
    fills.lacking(one);
    fills.complete('one');
    fills.lacking(one);
    await eventually(() => expect(tries).to.equal(2));
    expect(errors()[0]).to.match(/could not be applied.*npx millrace rebuild one/);
    await fills.stop();
  });

  it('are named with the remedy where they are not filled: by setting, or because they cannot be', async () => {
    let begun = 0;
    const fill = async (): Promise<undefined> => {
      begun++;
      return undefined;
    };
    const manual = create({ fill, isAutomatic: false });
    manual.fills.lacking(rebuildable('one'));
    manual.fills.lacking(rebuildable('one'));
    expect(manual.errors()).to.have.length(1);
    expect(manual.errors()[0]).to.match(/npx millrace rebuild one/);
    const unable = create({ fill });
    unable.fills.lacking(callsOut);
    expect(unable.errors()[0]).to.match(/cannot be filled.*npx millrace topologies accept-loss teller/);
    await manual.fills.stop();
    await unable.fills.stop();
    expect(begun).to.equal(0);
  });

  it('are left as they are when the process stops', async () => {
    const { fills, filled, errors } = create({
      fill: (_, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
        }),
    });
    fills.lacking(rebuildable('one'));
    fills.lacking(rebuildable('other'));
    await new Promise((resolve) => setImmediate(resolve));
    await fills.stop();
    expect(filled).to.deep.equal([]);
    expect(errors()).to.deep.equal([]);
  });
});
