import { expect } from 'chai';
import { frame } from '../../../src/avro/confluent-frame.ts';
import {
  avroDir,
  envelopeSchemaOf,
  envelopeSchemas,
  pastEnvelopeSchemas,
} from '../../../src/avro/envelope-schema.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import { checkRegistry } from '../../../src/registry/check-registry.ts';
import { createEnvelopeDecoder } from '../../../src/registry/envelope-decoder.ts';
import { IncompatibleSchema } from '../../../src/registry/incompatible-schema.ts';
import { isUnreadable, readFramedEnvelope } from '../../../src/registry/read-framed-envelope.ts';
import { registerSchemas } from '../../../src/registry/register-schemas.ts';
import {
  connectRegistryRest,
  RegistryRequestFailed,
  type RegistryRest,
} from '../../../src/registry/registry-rest.ts';
import {
  connectSchemaRegistry,
  type SchemaRegistry,
  UnknownSchemaId,
} from '../../../src/registry/schema-registry.ts';
import { type EventSchema, readEventSchemas } from '../../../src/schema-evolution/event-schemas.ts';
import { readGoldenEvents } from '../../../src/schema-evolution/golden-events.ts';
import { isUndecodable } from '../../../src/streams/record.ts';
import { eventually } from '../../support/eventually.ts';
import { useWorkspace } from '../../support/stack.ts';

interface Field {
  readonly name: string;
  readonly type: unknown;
  readonly default?: unknown;
}
const json = (...fields: readonly Field[]): string =>
  JSON.stringify({ type: 'record', namespace: 'loopers.spec', name: 'Spec', fields });
const a = { name: 'a', type: 'string' };
const optionalB = { name: 'b', type: ['null', 'string'], default: null };

describe('schema registry', () => {
  const workspace = useWorkspace();
  let registry: SchemaRegistry;
  let rest: RegistryRest;
  const access = () => ({ url: workspace().endpoints.schemaRegistryUrl, requestTimeoutMs: 5000 });
  const connect = () => connectSchemaRegistry({ ...access(), compatibility: 'FULL_TRANSITIVE' });
  before(() => {
    registry = connect();
    rest = connectRegistryRest(access());
  });

  const levelOf = async (subject: string): Promise<unknown> => {
    const response = await fetch(`${access().url}/config/${subject}`);
    return ((await response.json()) as { compatibilityLevel?: unknown }).compatibilityLevel;
  };
  const failureOf = async (failing: Promise<unknown>): Promise<Error> => {
    const outcome = await failing.then(
      () => undefined,
      (error: Error) => error,
    );
    if (!outcome) throw new Error('It did not fail');
    return outcome;
  };

  it('takes every schema of today and of the past, and again changes nothing', async () => {
    const first = await registerSchemas(registry);
    expect(first).to.have.length(envelopeSchemas.size + pastEnvelopeSchemas.length);
    expect(first.map(({ subject }) => subject)).to.include.members([
      'stock-events-loopers.product.ProductRegisteredV1Envelope',
      'stock-events-loopers.product.ProductRegisteredV2Envelope',
    ]);
    const versions = await Promise.all(first.map(({ subject }) => rest.versions(subject)));
    expect(await registerSchemas(connect())).to.deep.equal(first);
    expect(await Promise.all(first.map(({ subject }) => rest.versions(subject)))).to.deep.equal(versions);
    for (const { subject } of first) expect(await levelOf(subject), subject).to.equal('FULL_TRANSITIVE');
  });

  it('takes the same schema from many processes that start at once', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const subject = workspace().unique(`at-once-${turn}`);
      const registries = Array.from({ length: 6 }, () => connect());
      const ids = await Promise.all(registries.map((one) => one.idOf(subject, json(a, optionalB))));
      expect(new Set(ids).size).to.equal(1);
      expect(await rest.versions(subject)).to.have.length(1);
      expect(await levelOf(subject)).to.equal('FULL_TRANSITIVE');
    }
  });

  it('has the level before the first schema', async () => {
    const subject = workspace().unique('level-first');
    await rest.setCompatibility(subject, 'FULL_TRANSITIVE');
    expect(await rest.versions(subject)).to.deep.equal([]);
    expect(await levelOf(subject)).to.equal('FULL_TRANSITIVE');
  });

  it('refuses an incompatible schema, and we say why', async () => {
    const subject = workspace().unique('refused');
    const id = await registry.idOf(subject, json(a));
    const error = await failureOf(registry.idOf(subject, json({ name: 'c', type: 'long' })));
    expect(error).to.be.instanceOf(IncompatibleSchema).and.instanceOf(OperatorError);
    expect(error.message)
      .to.include(subject)
      .and.include('c (added-without-default) added without a default')
      .and.include('a (field-removed) removed');
    expect(await registry.idOf(subject, json(a))).to.equal(id);
    expect(await rest.versions(subject)).to.have.length(1);
  });

  it('is not asked again at once for a schema that it refuses, and is a moment later', async () => {
    const subject = workspace().unique('refused-again');
    await registry.idOf(subject, json(a));
    const incompatible = json({ name: 'c', type: 'long' });
    const first = await failureOf(registry.idOf(subject, incompatible));
    expect(await failureOf(registry.idOf(subject, incompatible))).to.equal(first);
    await eventually(
      async () => expect(await failureOf(registry.idOf(subject, incompatible))).not.to.equal(first),
      { timeoutMs: 60_000 },
    );
  });

  it('takes an additive one, and gives an old one its old id', async () => {
    const subject = workspace().unique('additive');
    const [first, second] = [
      await registry.idOf(subject, json(a)),
      await registry.idOf(subject, json(a, optionalB)),
    ];
    expect(first).not.to.equal(second);
    expect(await connect().idOf(subject, json(a))).to.equal(first);
    expect(await rest.versions(subject)).to.deep.equal([json(a), json(a, optionalB)]);
  });

  describe('asked by schemas check', () => {
    const view = (): EventSchema => {
      const found = readEventSchemas(avroDir).schemas.find(({ fullName }) =>
        /ProductViewedV1/.test(fullName),
      );
      if (!found) throw new Error('No schema');
      return found;
    };
    /** A schema under a subject of its own, and what becomes of it. */
    const planted = (change: (schema: { fields: Field[] }) => void): EventSchema => {
      const content = JSON.parse(view().json) as { fields: Field[] };
      change(content);
      return { ...view(), json: JSON.stringify(content) };
    };
    const renamed = (schema: EventSchema, name: string): EventSchema => ({
      ...schema,
      fullName: workspace().unique(name),
    });

    it('finds nothing wrong with what is registered', async () => {
      await registerSchemas(registry);
      const { subjects, findings } = await checkRegistry(
        rest,
        'FULL_TRANSITIVE',
        readEventSchemas(avroDir).schemas,
      );
      expect(findings).to.deep.equal([]);
      expect(subjects).to.have.length(envelopeSchemas.size);
      expect(new Set(subjects.map(({ answer }) => answer))).to.deep.equal(new Set(['compatible']));
    });

    it('says what is new to it, and leaves no trace of having been asked', async () => {
      const schema = renamed(view(), 'new');
      const { subjects } = await checkRegistry(rest, 'FULL_TRANSITIVE', [schema]);
      expect(subjects).to.deep.equal([{ subject: `product-view-events-${schema.fullName}`, answer: 'new' }]);
      expect(await levelOf(`product-view-events-${schema.fullName}`)).to.equal(undefined);
    });

    it('gives our reasons beside its refusal', async () => {
      const subject = `product-view-events-${workspace().unique('incompatible')}`;
      await registry.idOf(subject, view().json);
      const broken = planted(({ fields }) => {
        fields.splice(2, 1);
      });
      const { subjects, findings } = await checkRegistry(rest, 'FULL_TRANSITIVE', [
        renamed(broken, 'incompatible'),
      ]);
      expect(subjects).to.deep.equal([{ subject, answer: 'incompatible' }]);
      expect(findings.map(({ rule }) => rule)).to.deep.equal(['registry-refuses']);
      expect(findings[0]?.what).to.include(subject).and.include('source (field-removed) removed');
    });

    it('has the same opinion as the offline check of what may be added', async () => {
      const subject = `product-view-events-${workspace().unique('compatible')}`;
      await registry.idOf(subject, view().json);
      const wider = planted(({ fields }) => void fields.push(optionalB));
      const { subjects } = await checkRegistry(rest, 'FULL_TRANSITIVE', [renamed(wider, 'compatible')]);
      expect(subjects).to.deep.equal([{ subject, answer: 'compatible' }]);
    });
  });

  describe('as the source of writer schemas', () => {
    const golden = () => {
      const found = readGoldenEvents(avroDir).get('loopers.product.registered.v1/1-in-stock.json');
      if (!found) throw new Error('No golden event');
      return found;
    };
    const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
    const framedGolden = async (): Promise<Buffer> => {
      const registered = await registerSchemas(registry);
      const id = registered.find(({ fullName }) => fullName === golden().record)?.schemaId ?? 0;
      return frame(id, Buffer.from(golden().bytes, 'hex'));
    };
    const batch = (value: Buffer) => ({
      topic: 't',
      partition: 0,
      reading: 1,
      fromOffset: 0,
      nextOffset: 1,
      records: [
        {
          offset: 0,
          key: null,
          value,
          headers: {},
          timestampMs: 0,
          replay: undefined,
          bytes: value,
          valueStart: 0,
          valueEnd: value.length,
        },
      ],
    });

    it('reads bytes of the past as the event of today, for topics and for re-driving alike', async () => {
      const framed = await framedGolden();
      expect(plain(await readFramedEnvelope(registry, framed))).to.deep.equal(golden().envelope);
      const { records } = await createEnvelopeDecoder(registry).decode(batch(framed));
      const [record] = records.flatMap((decoded) => (isUndecodable(decoded) ? [] : [decoded]));
      expect(plain(record?.value)).to.deep.include({
        id: golden().envelope.id,
        data: golden().envelope.data,
      });
    });

    it('reads what a newer version has written, without what we do not know', async () => {
      const view = envelopeSchemaOf('ProductViewed');
      const content = JSON.parse(view.json) as { fields: Field[] };
      const wider = JSON.stringify({ ...content, fields: [...content.fields, optionalB] });
      const id = await registry.idOf(workspace().unique('newer'), wider);
      const writer = await registry.writerType(id);
      const byAUser = readGoldenEvents(avroDir).get('loopers.product.viewed.v1/1-by-a-user.json');
      const bytes = writer.toBuffer({ ...byAUser?.envelope, b: 'more' });
      expect(plain(await readFramedEnvelope(registry, frame(id, bytes)))).to.deep.equal(byAUser?.envelope);
    });

    it('tells unreadable bytes from a registry that does not answer', async () => {
      const framed = await framedGolden();
      const unknown = Buffer.from(framed);
      unknown.writeInt32BE(999_999, 1);
      for (const bytes of [unknown, framed.subarray(0, 40), Buffer.from('{}')]) {
        const error = await failureOf(readFramedEnvelope(registry, bytes));
        expect(isUnreadable(error), error.message).to.equal(true);
        const { records } = await createEnvelopeDecoder(registry).decode(batch(bytes));
        expect(records.filter(isUndecodable)).to.have.length(1);
      }
      expect(await failureOf(registry.writerType(999_999))).to.be.instanceOf(UnknownSchemaId);

      const nobody = connectSchemaRegistry({
        url: 'http://127.0.0.1:9/apis',
        requestTimeoutMs: 200,
        compatibility: 'FULL',
      });
      expect(isUnreadable(await failureOf(readFramedEnvelope(nobody, framed)))).to.equal(false);
      const error = await failureOf(nobody.idOf('subject', json(a)));
      expect(error).to.be.instanceOf(RegistryRequestFailed);
      expect(error.message).to.match(/failed on GET \/config\/subject/);
    });
  });
});
