import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Envelope } from '../avro/envelope.ts';
import { parseSchema } from '../avro/parse-schema.ts';
import type { readEnvelope } from '../avro/read-envelope.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { topicOf } from '../event-catalogue/upcasters.ts';
import { effectsOf, type RecordEffect } from '../streams/effects-of.ts';
import type { Topology } from '../streams/topology.ts';
import { type Finding, finding } from './finding.ts';
import { type Checksums, type Release, readChecksums, readReleases, sha256 } from './released-history.ts';

/** What one projection does with an event. */
export type GoldenEffect = { readonly projection: string } & RecordEffect;

/** Bytes as they were written once, and what must come of them for ever. */
export interface GoldenEvent {
  readonly about: string;
  readonly eventType: string;
  readonly record: string;
  readonly release: number;
  /** The Avro envelope without a frame, in hexadecimal. */
  readonly bytes: string;
  readonly envelope: Envelope;
  readonly effects: readonly GoldenEffect[];
}

export const goldenDir = 'golden';

/** Golden events by their path below `avro/golden`. */
export const readGoldenEvents = (avroDir: string): ReadonlyMap<string, GoldenEvent> => {
  const root = join(avroDir, goldenDir);
  if (!existsSync(root)) return new Map();
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.json'),
  );
  return new Map(
    files.sort().map((file) => [file, JSON.parse(readFileSync(join(root, file), 'utf8')) as GoldenEvent]),
  );
};

/** How an event is read and what is done with it; the specs plant faults here. */
export interface GoldenPath {
  readonly read: typeof readEnvelope;
  /** Over topics without a prefix. */
  readonly topologies: readonly Topology[];
}

/** What becomes of a golden event's bytes today. */
export const replayGolden = (
  { read, topologies }: GoldenPath,
  { json }: Release,
  { bytes, eventType }: Pick<GoldenEvent, 'bytes' | 'eventType'>,
): Pick<GoldenEvent, 'envelope' | 'effects'> => {
  const envelope = read(parseSchema(json), Buffer.from(bytes, 'hex'));
  return { envelope: plain(envelope), effects: goldenEffects(topologies, topicOf(eventType), envelope) };
};

/** avsc gives records a class of their own; what counts is their content. */
const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

const goldenEffects = (
  topologies: readonly Topology[],
  topic: TopicName,
  envelope: Envelope,
): readonly GoldenEffect[] =>
  topologies.flatMap((topology) =>
    effectsOf(
      topology,
      { topic, partition: 0 },
      { id: envelope.id, timeMs: envelope.time, key: envelope.aggregateId, value: envelope },
    ).map((effect) => ({ projection: topology.name, ...plain(effect) })),
  );

/** Whether every golden event still comes to what it must, and every release has one. */
export const checkGoldenEvents = (avroDir: string, path: GoldenPath): readonly Finding[] => {
  const releases = readReleases(avroDir);
  const goldens = readGoldenEvents(avroDir);
  return [
    ...kept(goldens, readChecksums(avroDir)),
    ...releases
      .filter((release) => ![...goldens.values()].some((golden) => isOf(release, golden)))
      .map((release) =>
        goldenFinding(release.fullName, release.number, 'golden-missing', {
          what: 'was released without a golden event, or has lost it',
          instead: 'restore it from the version control, or add a sample before the release',
        }),
      ),
    ...[...goldens].flatMap(([file, golden]) => checkOne(file, golden, releases, path)),
  ];
};

const isOf = (release: Release, golden: GoldenEvent): boolean =>
  release.fullName === golden.record && release.number === golden.release;

const kept = (goldens: ReadonlyMap<string, GoldenEvent>, { golden: sums }: Checksums): readonly Finding[] =>
  [...new Set([...Object.keys(sums), ...goldens.keys()])].flatMap((file) => {
    const golden = goldens.get(file);
    if (golden && sums[file] === sha256(golden.bytes)) return [];
    return [
      goldenFinding(file, golden?.release ?? 0, golden ? 'golden-changed' : 'golden-removed', {
        what: golden ? 'has other bytes than the ones that were frozen' : 'was frozen and is gone',
        instead: 'restore it from the version control; only what is expected of the bytes may change',
      }),
    ];
  });

const checkOne = (
  file: string,
  golden: GoldenEvent,
  releases: readonly Release[],
  path: GoldenPath,
): readonly Finding[] => {
  const complain = (rule: string, what: string, instead: string): readonly Finding[] => [
    goldenFinding(file, golden.release, rule, { what, instead }),
  ];
  const release = releases.find((candidate) => isOf(candidate, golden));
  if (!release) {
    return complain(
      'release-removed',
      `release ${golden.release} of ${golden.record} is gone`,
      'restore it from the version control',
    );
  }
  const accept = 'mend what changed it, or accept it with `millrace schemas golden --accept` if it is meant';
  try {
    const found = replayGolden(path, release, golden);
    const lost = firstDifference(golden.envelope, found.envelope, '');
    if (lost) return complain('golden-envelope', lost, accept);
    if (!isDeepStrictEqual(found.effects, golden.effects)) {
      const [expected, actual] = [golden.effects, found.effects].map((effects) => JSON.stringify(effects));
      return complain(
        'golden-effects',
        `the projections make ${actual} of it instead of ${expected}`,
        accept,
      );
    }
    return [];
  } catch (error) {
    return complain(
      'golden-unreadable',
      `the bytes cannot be read any more: ${(error as Error).message}`,
      'undo what made them unreadable',
    );
  }
};

/** New fields may come in beside the expected ones, with their defaults; what was there must be there still. */
const firstDifference = (expected: unknown, found: unknown, path: string): string | undefined => {
  if (typeof expected !== 'object' || expected === null) {
    return expected === found
      ? undefined
      : `${path || 'the envelope'} is ${JSON.stringify(found) ?? 'missing'} instead of ${JSON.stringify(expected)}`;
  }
  if (Array.isArray(expected) && (!Array.isArray(found) || found.length !== expected.length)) {
    return `${path} does not have its ${expected.length} items`;
  }
  for (const [name, value] of Object.entries(expected)) {
    const inner = (found as Readonly<Record<string, unknown>> | null | undefined)?.[name];
    const difference = firstDifference(value, inner, path === '' ? name : `${path}.${name}`);
    if (difference) return difference;
  }
  return undefined;
};

const goldenFinding = (
  schema: string,
  release: number,
  rule: string,
  text: { readonly what: string; readonly instead: string },
): Finding => finding({ schema, path: '', rule, ...text, against: [release] });
