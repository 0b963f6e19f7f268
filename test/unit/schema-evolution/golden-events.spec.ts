import { expect } from 'chai';
import type { Envelope } from '../../../src/avro/envelope.ts';
import { avroDir } from '../../../src/avro/envelope-schema.ts';
import { readEnvelope } from '../../../src/avro/read-envelope.ts';
import {
  checkGoldenEvents,
  type GoldenEvent,
  readGoldenEvents,
} from '../../../src/schema-evolution/golden-events.ts';
import { acceptGoldenEvents } from '../../../src/schema-evolution/release-schemas.ts';
import { readReleases } from '../../../src/schema-evolution/released-history.ts';
import type { Topology } from '../../../src/streams/topology.ts';
import { brief, plantedFolder, realPath } from './planted.ts';

const viewFile = 'golden/loopers.product.viewed.v1/1-by-a-user.json';
const registeredV1 = 'loopers.product.registered.v1/1-in-stock.json';

describe('golden events', () => {
  const folder = plantedFolder();
  const check = (dir: string, path = realPath) => ({ findings: checkGoldenEvents(dir, path) });

  it('come to what they must: decoded, upcast, projected', () => {
    expect(checkGoldenEvents(avroDir, realPath)).to.deep.equal([]);
    const goldens = [...readGoldenEvents(avroDir).values()];
    expect(goldens.length).to.be.greaterThanOrEqual(readReleases(avroDir).length);
    expect(goldens.filter(({ effects }) => effects.length > 0)).not.to.deep.equal([]);
  });

  it('show the upcaster at work: bytes of v1, an event of v2', () => {
    const golden = readGoldenEvents(avroDir).get(registeredV1);
    expect(golden?.eventType).to.equal('loopers.product.registered.v1');
    expect(golden?.envelope.type).to.equal('loopers.product.registered.v2');
    expect(golden?.envelope.data.price).to.deep.equal({ amountMinor: 1999, currency: 'EUR' });
  });

  /** A reader with a mistake of its own after everything else is right. */
  const reading = (change: (envelope: Envelope) => Envelope) => ({
    ...realPath,
    read: ((writer, bytes) => change(readEnvelope(writer, bytes))) satisfies typeof readEnvelope,
  });

  it('catch an upcaster that loses a field', () => {
    const path = reading((envelope) => {
      const { name: _, ...data } = envelope.data;
      return envelope.type === 'loopers.product.registered.v2' ? { ...envelope, data } : envelope;
    });
    const found = check(avroDir, path);
    expect(brief(found)).to.include(`${registeredV1} golden-envelope`);
    expect(found.findings[0]?.what).to.match(/data\.name is missing instead of "Mühle/);
  });

  it('catch an upcaster that leaves a type of the past', () => {
    const path = reading((envelope) => ({ ...envelope, type: envelope.type.replace('v2', 'v1') }));
    expect(brief(check(avroDir, path))).to.include(`${registeredV1} golden-envelope`);
  });

  it('let fields be added beside the expected ones', () => {
    const path = reading((envelope) => ({ ...envelope, data: { ...envelope.data, added: null } }));
    expect(brief(check(avroDir, path))).to.deep.equal([]);
  });

  it('catch bytes that cannot be read any more', () => {
    const path = reading(() => {
      throw new Error('no matching field');
    });
    const { findings } = check(avroDir, path);
    expect(findings).to.have.length(readGoldenEvents(avroDir).size);
    expect(findings[0]).to.include({ rule: 'golden-unreadable' });
  });

  it('catch a projection that counts differently, or twice', () => {
    const twice: readonly Topology[] = realPath.topologies.map(({ sources, ...rest }) => ({
      ...rest,
      sources: [...sources, ...sources],
    }));
    const found = check(avroDir, { ...realPath, topologies: twice });
    expect(brief(found)).to.include(`${viewFile.replace('golden/', '')} golden-effects`);
    expect(brief(check(avroDir, { ...realPath, topologies: [] }))).to.include(
      `${viewFile.replace('golden/', '')} golden-effects`,
    );
  });

  it('catch one that is gone, and one whose bytes were changed', () => {
    const planted = folder();
    planted.remove('golden/loopers.like.created.v1/1-first-like.json');
    planted.edit<{ bytes: string }>(viewFile, (golden) => {
      golden.bytes = golden.bytes.replace(/757365722d31$/, '757365722d32');
    });
    expect(brief(check(planted.dir))).to.have.members([
      'loopers.like.created.v1/1-first-like.json golden-removed',
      'loopers.like.LikeCreatedV1Envelope golden-missing',
      'loopers.product.viewed.v1/1-by-a-user.json golden-changed',
      'loopers.product.viewed.v1/1-by-a-user.json golden-envelope',
    ]);
  });

  it('catch a release that was removed together with its checksum', () => {
    const planted = folder();
    const file = 'loopers.like.LikeCreatedV1Envelope/1.avsc';
    planted.remove(`released/${file}`);
    planted.edit<{ released: Record<string, string> }>(
      'checksums.json',
      ({ released }) => delete released[file],
    );
    expect(brief(check(planted.dir))).to.deep.equal([
      'loopers.like.created.v1/1-first-like.json release-removed',
    ]);
  });

  it('take what comes of them as expected when told to, and keep their bytes', () => {
    const planted = folder();
    const before = JSON.parse(planted.read(viewFile)) as GoldenEvent;
    const path = { ...realPath, topologies: [] };
    const accepted = acceptGoldenEvents(planted.dir, path);
    expect(accepted).to.include(viewFile.replace('golden/', ''));
    expect(JSON.parse(planted.read(viewFile))).to.deep.equal({ ...before, effects: [] });
    expect(check(planted.dir, path).findings).to.deep.equal([]);
    expect(acceptGoldenEvents(planted.dir, path)).to.deep.equal([]);
  });
});
