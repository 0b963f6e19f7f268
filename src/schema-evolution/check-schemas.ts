import { parseSchema } from '../avro/parse-schema.ts';
import { changesBetween } from './compare-schemas.ts';
import { type CompatibilityPolicy, type Demands, demandsOf } from './compatibility-policy.ts';
import { avscComplaint, type EventSchema, type EventSchemas, readEventSchemas } from './event-schemas.ts';
import { type Direction, type Finding, finding } from './finding.ts';
import {
  historyFindings,
  newestRelease,
  type Release,
  readChecksums,
  readReleases,
} from './released-history.ts';
import { parseModel, type RecordNode } from './schema-model.ts';
import { brokenRules } from './schema-rules.ts';

export interface CheckReport {
  readonly policy: CompatibilityPolicy;
  readonly schemas: number;
  readonly releases: number;
  /** Pairs of a reader and a writer that avsc was asked about. */
  readonly pairs: number;
  readonly findings: readonly Finding[];
  /** Records whose schema differs from their newest release: fine, but not protected before they are released. */
  readonly unreleased: readonly string[];
}

/** The whole offline check of a folder of schemas. */
export const checkSchemas = (options: {
  readonly avroDir: string;
  readonly policy: CompatibilityPolicy;
}): CheckReport => {
  const current = readEventSchemas(options.avroDir);
  const releases = readReleases(options.avroDir);
  const rules = ruleFindings(current);
  const history = historyFindings(releases, readChecksums(options.avroDir));
  const readable = current.schemas.filter(({ json }) => avscComplaint(json) === undefined);
  // A release that was tampered with is told about already; there is nothing to learn from it.
  const sound = releases.filter(({ json }) => avscComplaint(json) === undefined);
  const pairs = readable.flatMap((schema) => pairsOf(schema, sound, demandsOf(options.policy)));
  return {
    policy: options.policy,
    schemas: current.schemas.length,
    releases: releases.length,
    pairs: pairs.reduce((sum, { directions }) => sum + directions.length, 0),
    findings: mergeFindings([
      ...rules,
      ...history,
      ...abandoned(current, releases),
      ...pairs.flatMap(incompatibilities),
    ]),
    unreleased: unreleasedOf(current.schemas, releases).map(({ fullName }) => fullName),
  };
};

/** What a release would freeze. A type of the past is released once: nobody writes it any more. */
export const unreleasedOf = (
  schemas: readonly EventSchema[],
  releases: readonly Release[],
): readonly EventSchema[] =>
  schemas.filter(({ fullName, json, isWritten }) => {
    const newest = newestRelease(releases, fullName);
    return newest === undefined || (isWritten && newest.json !== json);
  });

const ruleFindings = ({ schemas, envelope, findings }: EventSchemas): readonly Finding[] => {
  const ours = [
    ...findings,
    ...(envelope ? brokenRules(envelope) : []),
    ...schemas.flatMap(({ data }) => brokenRules(data)),
    ...definedTwice(schemas),
  ];
  const explained = new Set(ours.map(({ schema }) => schema));
  const unexplained = schemas.flatMap(({ data, json }) => {
    const complaint = avscComplaint(json);
    if (!complaint || explained.has(data.fullName) || (envelope && explained.has(envelope.fullName)))
      return [];
    return [
      finding({
        schema: data.fullName,
        path: '',
        rule: 'unreadable',
        what: `avsc refuses it: ${complaint}`,
        instead: 'mend what it names',
      }),
    ];
  });
  return [...ours, ...unexplained];
};

/** A record that several events carry is copied into each of their files, and the copies must stay equal. */
const definedTwice = (schemas: readonly EventSchema[]): readonly Finding[] => {
  const first = new Map<string, { readonly record: RecordNode; readonly file: string }>();
  return schemas.flatMap(({ data, file }) =>
    nestedRecords(data).flatMap((record) => {
      const known = first.get(record.fullName);
      if (!known) first.set(record.fullName, { record, file });
      const [change] = known ? changesBetween(known.record, record) : [];
      if (!known || !change) return [];
      return [
        finding({
          schema: record.fullName,
          path: change.path,
          rule: 'defined-differently',
          what: `${file} and ${known.file} do not agree on it: ${change.what}`,
          instead: 'make the same change in every file that has this record',
        }),
      ];
    }),
  );
};

const nestedRecords = (record: RecordNode): readonly RecordNode[] => {
  const found = new Set<RecordNode>([record]);
  for (const { fields } of found) {
    for (const { type } of fields) {
      const parts = type.kind === 'array' ? [type.items] : type.kind === 'map' ? [type.values] : [type];
      for (const part of parts.flatMap((node) => (node.kind === 'union' ? node.branches : [node]))) {
        if (part.kind === 'record') found.add(part);
      }
    }
  }
  return [...found];
};

/** Something that was once released must have somebody who can read it. */
const abandoned = ({ schemas, findings }: EventSchemas, releases: readonly Release[]): readonly Finding[] => {
  // A file that cannot be read is told about already.
  if (findings.some(({ rule }) => rule === 'unreadable')) return [];
  const known = new Set(schemas.map(({ fullName }) => fullName));
  return [...new Set(releases.map(({ fullName }) => fullName))]
    .filter((fullName) => !known.has(fullName))
    .map((fullName) =>
      finding({
        schema: fullName,
        path: '',
        rule: 'reader-missing',
        what: 'was released, and no event type of the catalogue or the upcasters reads it any more',
        instead:
          'keep its entry, or give it an upcaster to the event type that replaces it (CONTRIBUTING.md)',
      }),
    );
};

interface Pair {
  readonly schema: EventSchema;
  readonly release: Release;
  readonly directions: readonly Direction[];
}

const pairsOf = (
  schema: EventSchema,
  releases: readonly Release[],
  { directions, transitive }: Demands,
): readonly Pair[] => {
  const own = releases.filter(({ fullName }) => fullName === schema.fullName);
  // What nobody writes any more only has to be readable.
  const wanted = schema.isWritten ? directions : directions.filter((direction) => direction === 'backward');
  return (transitive ? own : own.slice(-1)).map((release) => ({ schema, release, directions: wanted }));
};

/** Our own comparison gives the reasons; avsc, which will have to do it, has the last word. */
const incompatibilities = ({ schema, release, directions }: Pair): readonly Finding[] => {
  const explained = breakingChanges({ older: release.json, newer: schema.json, directions }).map((change) =>
    finding({ ...change, schema: schema.fullName, against: [release.number] }),
  );
  const unexplained = directions
    .filter((direction) => !explained.some((found) => found.directions.includes(direction)))
    .flatMap((direction): readonly Finding[] => {
      const complaint = resolverComplaint(schema.json, release.json, direction);
      if (!complaint) return [];
      return [
        finding({
          schema: schema.fullName,
          path: '',
          rule: 'unresolvable',
          what: `avsc cannot resolve it: ${complaint}`,
          instead: 'undo the change that avsc names',
          against: [release.number],
          directions: [direction],
        }),
      ];
    });
  return [...explained, ...unexplained];
};

/** The differences that break one of the directions, with the reasons. */
export const breakingChanges = (versions: {
  readonly older: string;
  readonly newer: string;
  readonly directions: readonly Direction[];
}): readonly Pick<Finding, 'path' | 'rule' | 'what' | 'instead' | 'directions'>[] =>
  changesBetween(parseModel(versions.older), parseModel(versions.newer)).flatMap(
    ({ path, rule, what, instead, breaks }) => {
      const directions = breaks.filter((direction) => versions.directions.includes(direction));
      return directions.length > 0 ? [{ path, rule, what, instead, directions }] : [];
    },
  );

const resolverComplaint = (current: string, released: string, direction: Direction): string | undefined => {
  const [reader, writer] = direction === 'backward' ? [current, released] : [released, current];
  try {
    parseSchema(reader).createResolver(parseSchema(writer));
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
};

/** One line per mistake: the same one against several releases, or in the envelope of every event, is one. */
const mergeFindings = (findings: readonly Finding[]): readonly Finding[] => {
  const merged = new Map<string, Finding>();
  for (const found of findings) {
    const isShared = found.directions.length > 0 && found.path !== '' && !/^data\b/.test(found.path);
    const schema = isShared ? 'loopers.Envelope' : found.schema;
    const key = JSON.stringify([schema, found.path, found.rule, found.what]);
    const earlier = merged.get(key);
    merged.set(key, {
      ...found,
      schema,
      against: union(earlier?.against ?? [], found.against),
      directions: union(earlier?.directions ?? [], found.directions),
    });
  }
  return [...merged.values()];
};

const union = <T>(a: readonly T[], b: readonly T[]): readonly T[] => [...new Set([...a, ...b])];
