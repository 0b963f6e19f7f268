import { v7 as uuidv7 } from 'uuid';
import { frame } from '../../src/avro/confluent-frame.ts';
import { encodeEnvelope } from '../../src/avro/encode-envelope.ts';
import { envelopeSchemaOf, envelopeSchemas } from '../../src/avro/envelope-schema.ts';
import {
  type CataloguedEvent,
  type EventName,
  eventCatalogue,
  partitionKeyOf,
} from '../../src/event-catalogue/event-catalogue.ts';
import { createEnvelopeDecoder } from '../../src/registry/envelope-decoder.ts';
import { type SchemaRegistry, UnknownSchemaId } from '../../src/registry/schema-registry.ts';
import { type SentRecord, TopologyTestDriver } from '../../src/streams/testing/topology-test-driver.ts';
import type { Topology } from '../../src/streams/topology.ts';

const names = [...envelopeSchemas.keys()];
/** The place of an event in the catalogue, as the id of its schema. */
export const schemaIdOf = (name: EventName): number => names.indexOf(name) + 1;

/** A registry at the edge of unit specs: it knows the schemas of this version, by their place in the catalogue. */
export const memoryRegistry: Pick<SchemaRegistry, 'writerType'> = {
  writerType: async (id) => {
    const name = names[id - 1];
    if (!name) throw new UnknownSchemaId(`Nobody has registered a schema ${id}`);
    return envelopeSchemaOf(name).type;
  },
};

const defaultTimeMs = 1_700_000_000_000;

export interface EventDetails {
  readonly aggregateId: string;
  readonly version?: number;
  readonly time?: number;
  readonly id?: string;
}

/** An event as it lies in its topic: real bytes. */
export const recordOf = (event: CataloguedEvent, details: EventDetails): SentRecord => {
  const { type: name, ...data } = event;
  const { eventType, aggregateType } = eventCatalogue[name];
  const id = details.id ?? uuidv7();
  const payload = encodeEnvelope(envelopeSchemaOf(name), {
    id,
    type: eventType,
    source: 'spec',
    aggregateType,
    aggregateId: details.aggregateId,
    aggregateVersion: details.version ?? 1,
    time: details.time ?? defaultTimeMs,
    correlationId: id,
    causationId: id,
    traceparent: null,
    data,
  });
  return { key: partitionKeyOf(event), value: frame(schemaIdOf(name), payload) };
};

/** Runs one of the service's projections in memory, on the bytes it would read from Kafka. */
export class CommerceDriver extends TopologyTestDriver {
  constructor(topology: Topology, options: { readonly seed?: number } = {}) {
    super({ topology, decoder: createEnvelopeDecoder(memoryRegistry as SchemaRegistry), ...options });
  }

  /** The broker gets an event no earlier than it happens. */
  tell(event: CataloguedEvent, details: EventDetails): void {
    this.passTime(Math.max(0, (details.time ?? defaultTimeMs) - this.nowMs));
    this.send(eventCatalogue[event.type].topic, recordOf(event, details));
  }
}
