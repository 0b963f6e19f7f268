import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { artifactIn, type CachedArtifact, fillCache } from '../artifact-cache.ts';
import { downloadWithMaven, type Maven, mavenDependencyPlugin } from '../maven.ts';
import { runTool } from '../run-tool.ts';

export const registryVersion = '3.0.9';
const expectedBytes = 109_000_000;
const unpackTimeoutMs = 120_000;
const coordinates = `io.apicurio:apicurio-registry-app:${registryVersion}:tar.gz:all`;

export const registryArtifact = (cacheDir: string): CachedArtifact =>
  artifactIn(cacheDir, { name: `apicurio-registry-${registryVersion}`, recipe: coordinates });

export const registryJars = (artifact: CachedArtifact): string =>
  [
    join(artifact.folder, `apicurio-registry-app-${registryVersion}-runner.jar`),
    join(artifact.folder, 'lib', '*'),
  ].join(':');

export const downloadRegistry = (artifact: CachedArtifact, maven: Maven): Promise<void> =>
  fillCache(artifact, async (folder) => {
    await downloadWithMaven(maven, {
      subject: 'Schema registry',
      title: `Apicurio Registry ${registryVersion}`,
      expectedBytes,
      args: [`${mavenDependencyPlugin}:copy`, `-Dartifact=${coordinates}`, `-DoutputDirectory=${folder}`],
      cwd: folder,
    });
    await unpack(folder, maven);
  });

const unpack = async (folder: string, maven: Maven): Promise<void> => {
  maven.report({ subject: 'Schema registry', state: 'running', text: 'unpacking' });
  for (const archive of readdirSync(folder).filter((name) => name.endsWith('.tar.gz'))) {
    await runTool(maven.supervisor, {
      name: 'tar',
      command: 'tar',
      args: ['-xzf', archive],
      cwd: folder,
      timeoutMs: unpackTimeoutMs,
      signal: maven.signal,
    });
    rmSync(join(folder, archive));
  }
};
