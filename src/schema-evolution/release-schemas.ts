import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Envelope } from '../avro/envelope.ts';
import { parseSchema } from '../avro/parse-schema.ts';
import { eventCatalogue } from '../event-catalogue/event-catalogue.ts';
import { eventNameToday } from '../event-catalogue/upcasters.ts';
import { OperatorError } from '../operator-error.ts';
import { unreleasedOf } from './check-schemas.ts';
import { type EventSchema, readEventSchemas } from './event-schemas.ts';
import {
  type GoldenEvent,
  type GoldenPath,
  goldenDir,
  readGoldenEvents,
  replayGolden,
} from './golden-events.ts';
import {
  type Checksums,
  checksumFile,
  newestRelease,
  type Release,
  readChecksums,
  readReleases,
  releasedDir,
  releaseFile,
  sha256,
} from './released-history.ts';

/** What a release adds, by path below `avro`. */
export interface PlannedRelease extends Release {
  readonly golden: ReadonlyMap<string, GoldenEvent>;
}

/** An event worth keeping for ever, as a person describes it in `avro/samples`. */
interface Sample {
  readonly title: string;
  readonly about: string;
  readonly aggregateId: string;
  readonly data: Readonly<Record<string, unknown>>;
}

type SharedSample = Omit<Envelope, 'type' | 'aggregateType' | 'aggregateId' | 'data'>;

/** What would be frozen: every schema that differs from its newest release, each with its golden events. */
export const planReleases = (avroDir: string, path: GoldenPath): readonly PlannedRelease[] => {
  const releases = readReleases(avroDir);
  return unreleasedOf(readEventSchemas(avroDir).schemas, releases).map((schema) => {
    const { fullName, json } = schema;
    const release = { fullName, json, number: (newestRelease(releases, fullName)?.number ?? 0) + 1 };
    return { ...release, golden: goldenEventsOf(avroDir, path, schema, release) };
  });
};

const goldenEventsOf = (
  avroDir: string,
  path: GoldenPath,
  schema: EventSchema,
  release: Release,
): ReadonlyMap<string, GoldenEvent> => {
  const { eventType, file } = schema;
  const shared = readSample<SharedSample>(avroDir, 'envelope.json');
  const samples = readSample<readonly Sample[]>(avroDir, sampleFile(file));
  if (samples.length === 0) throw withoutSample(file);
  return new Map(
    samples.map(({ title, about, aggregateId, data }) => {
      const { aggregateType } = eventCatalogue[eventNameToday(eventType)];
      const envelope = { ...shared, type: eventType, aggregateType, aggregateId, data };
      const bytes = encodeSample(schema, title, envelope);
      const golden = { about, eventType, record: release.fullName, release: release.number, bytes };
      const name = `${eventType}/${release.number}-${title}.json`;
      return [name, { ...golden, ...replayGolden(path, release, golden) }];
    }),
  );
};

const encodeSample = ({ json, file }: EventSchema, title: string, envelope: Envelope): string => {
  const remedy = `Bring avro/samples/${sampleFile(file)} up to date with the schema, new fields included`;
  const misfit = (why: string, cause?: unknown): OperatorError =>
    new OperatorError(`The sample ${title} does not fit ${file}: ${why}`, { remedy, cause });
  const type = parseSchema(json);
  let bytes: Buffer;
  try {
    bytes = type.toBuffer(envelope);
  } catch (cause) {
    throw misfit((cause as Error).message, cause);
  }
  // avsc writes the default of a field that is not there and leaves out what it does not know; a golden event says all.
  if (!isDeepStrictEqual(plain(type.fromBuffer(bytes)), plain(envelope))) {
    throw misfit('it lacks a field, or has one too many');
  }
  return bytes.toString('hex');
};

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

const sampleFile = (schemaFile: string): string => schemaFile.replace(/\.avsc$/, '.json');

const readSample = <T>(avroDir: string, file: string): T => {
  try {
    return JSON.parse(readFileSync(join(avroDir, 'samples', file), 'utf8')) as T;
  } catch (cause) {
    throw withoutSample(file, cause);
  }
};

const withoutSample = (file: string, cause?: unknown): OperatorError =>
  new OperatorError(`There is no sample for ${file} that could be read`, {
    remedy: 'Describe one in avro/samples: it becomes the golden event of the release',
    cause,
  });

/** Adds to the history and to the golden events; nothing that is there is touched. */
export const writeReleases = (avroDir: string, planned: readonly PlannedRelease[]): void => {
  const sums = readChecksums(avroDir);
  const released = { ...sums.released };
  const golden = { ...sums.golden };
  for (const release of planned) {
    released[releaseFile(release)] = sha256(release.json);
    write(join(avroDir, releasedDir, releaseFile(release)), release.json);
    for (const [file, event] of release.golden) {
      golden[file] = sha256(event.bytes);
      writeJson(join(avroDir, goldenDir, file), event);
    }
  }
  writeJson(join(avroDir, checksumFile), {
    released: sorted(released),
    golden: sorted(golden),
  } satisfies Checksums);
};

/** Writes down what comes of the golden events today as what is expected of them from now on. Their bytes stay. */
export const acceptGoldenEvents = (avroDir: string, path: GoldenPath): readonly string[] => {
  const releases = readReleases(avroDir);
  return [...readGoldenEvents(avroDir)].flatMap(([file, golden]) => {
    const release = releases.find(
      ({ fullName, number }) => fullName === golden.record && number === golden.release,
    );
    if (!release) return [];
    const accepted: GoldenEvent = { ...golden, ...replayGolden(path, release, golden) };
    if (JSON.stringify(accepted) === JSON.stringify(golden)) return [];
    writeJson(join(avroDir, goldenDir, file), accepted);
    return [file];
  });
};

const sorted = (sums: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(sums).sort(([a], [b]) => (a < b ? -1 : 1)));

const writeJson = (file: string, value: unknown): void => write(file, `${JSON.stringify(value, null, 2)}\n`);

const write = (file: string, content: string): void => {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
};
