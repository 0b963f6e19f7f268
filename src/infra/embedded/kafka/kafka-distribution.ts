import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { artifactIn, type CachedArtifact, fillCache } from '../artifact-cache.ts';
import { downloadWithMaven, type Maven, mavenDependencyPlugin } from '../maven.ts';

export const kafkaVersion = '4.3.1';
const expectedBytes = 57_000_000;

const pom = fileURLToPath(new URL('./pom.xml', import.meta.url));

export const kafkaArtifact = (cacheDir: string): CachedArtifact => {
  const recipe = createHash('sha256').update(readFileSync(pom)).digest('hex');
  return artifactIn(cacheDir, { name: `kafka-${kafkaVersion}`, recipe });
};

export const kafkaJars = (artifact: CachedArtifact): string => join(artifact.folder, 'libs', '*');

export const downloadKafka = (artifact: CachedArtifact, maven: Maven): Promise<void> =>
  fillCache(artifact, async (folder) => {
    const libs = join(folder, 'libs');
    mkdirSync(libs);
    await downloadWithMaven(maven, {
      subject: 'Kafka',
      title: `Apache Kafka ${kafkaVersion}`,
      expectedBytes,
      args: ['-f', pom, `${mavenDependencyPlugin}:copy-dependencies`, `-DoutputDirectory=${libs}`],
      cwd: folder,
    });
  });
