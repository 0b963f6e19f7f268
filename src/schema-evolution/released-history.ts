import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Finding, finding } from './finding.ts';

/** A schema that went over the wire, exactly as it did. */
export interface Release {
  readonly fullName: string;
  /** From 1, without gaps, per record. */
  readonly number: number;
  readonly json: string;
}

/** What must never change again, by path below `avro`. */
export interface Checksums {
  readonly released: Readonly<Record<string, string>>;
  readonly golden: Readonly<Record<string, string>>;
}

export const releasedDir = 'released';
export const checksumFile = 'checksums.json';
export const sha256 = (content: string | Buffer): string =>
  createHash('sha256').update(content).digest('hex');
export const releaseFile = ({ fullName, number }: Pick<Release, 'fullName' | 'number'>): string =>
  `${fullName}/${number}.avsc`;

export const readChecksums = (avroDir: string): Checksums => {
  const file = join(avroDir, checksumFile);
  if (!existsSync(file)) return { released: {}, golden: {} };
  return JSON.parse(readFileSync(file, 'utf8')) as Checksums;
};

/** Every released schema, oldest first within its record. */
export const readReleases = (avroDir: string): readonly Release[] => {
  const root = join(avroDir, releasedDir);
  if (!existsSync(root)) return [];
  return readdirSync(root)
    .sort()
    .flatMap((fullName) =>
      readdirSync(join(root, fullName))
        .map((file) => ({ file, number: Number(/^([1-9]\d*)\.avsc$/.exec(file)?.[1]) }))
        .filter(({ number }) => number > 0)
        .sort((a, b) => a.number - b.number)
        .map(({ file, number }) => ({
          fullName,
          number,
          json: readFileSync(join(root, fullName, file), 'utf8'),
        })),
    );
};

export const newestRelease = (releases: readonly Release[], fullName: string): Release | undefined =>
  releases.filter((release) => release.fullName === fullName).at(-1);

/** What happened to files that must stay as they are. */
export const historyFindings = (
  releases: readonly Release[],
  { released }: Checksums,
): readonly Finding[] => {
  const present = new Map(releases.map((release) => [releaseFile(release), release]));
  const gone = Object.keys(released).filter((file) => !present.has(file));
  return [
    ...gone.map((file) =>
      historyFinding(
        file,
        'release-removed',
        'was released and is gone: events written with it are still out there',
      ),
    ),
    ...[...present].flatMap(([file, { json }]) => {
      const expected = released[file];
      if (expected === undefined)
        return [historyFinding(file, 'release-unlisted', `is not in ${checksumFile}`)];
      return expected === sha256(json)
        ? []
        : [
            historyFinding(
              file,
              'release-changed',
              'is not what was released: it no longer describes the bytes written with it',
            ),
          ];
    }),
    ...gaps(releases),
  ];
};

const gaps = (releases: readonly Release[]): readonly Finding[] =>
  Object.entries(Object.groupBy(releases, ({ fullName }) => fullName)).flatMap(
    ([fullName, versions = []]) => {
      const absent = versions.findIndex(({ number }, index) => number !== index + 1);
      return absent < 0
        ? []
        : [
            historyFinding(
              `${fullName}/${absent + 1}.avsc`,
              'release-removed',
              'is missing between its neighbours',
            ),
          ];
    },
  );

const historyFinding = (file: string, rule: string, what: string): Finding =>
  finding({
    schema: file.slice(0, file.lastIndexOf('/')),
    path: '',
    rule,
    what: `avro/${releasedDir}/${file} ${what}`,
    instead:
      rule === 'release-unlisted'
        ? 'let `millrace schemas release` add releases, never by hand'
        : 'restore the file from the version control; history is only ever added to',
    against: [Number(/(\d+)\.avsc$/.exec(file)?.[1])],
  });
