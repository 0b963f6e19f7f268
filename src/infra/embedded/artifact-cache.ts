import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A downloaded server in the cache. The recipe changes when other files would be fetched under the same name. */
export interface CachedArtifact {
  readonly folder: string;
  readonly recipe: string;
}

const marker = 'complete.json';
const abandonedAfterMs = 60 * 60_000;

export const artifactIn = (cacheDir: string, artifact: { name: string; recipe: string }): CachedArtifact => ({
  folder: join(cacheDir, artifact.name),
  recipe: artifact.recipe,
});

/** Every file that was there when it was completed is still there in full. */
export const isCached = ({ folder, recipe }: CachedArtifact): boolean => {
  try {
    const complete = JSON.parse(readFileSync(join(folder, marker), 'utf8')) as Completed;
    const files = Object.entries(complete.bytesByFile);
    return (
      complete.recipe === recipe &&
      files.every(([file, bytes]) => statSync(join(folder, file)).size === bytes)
    );
  } catch {
    return false;
  }
};

/**
 * Fills a folder beside the final one and renames it, so that an interrupted download leaves nothing that looks
 * finished, and of two downloads at once the second finds the first one's result.
 */
export const fillCache = async (
  artifact: CachedArtifact,
  fill: (folder: string) => Promise<void>,
): Promise<void> => {
  const suffix = randomBytes(6).toString('hex');
  const unfinished = `${artifact.folder}.unfinished-${suffix}`;
  mkdirSync(unfinished, { recursive: true });
  try {
    await fill(unfinished);
    writeFileSync(join(unfinished, marker), JSON.stringify(completed(artifact.recipe, unfinished)));
    if (isCached(artifact)) return;
    moveAway(artifact.folder, `${artifact.folder}.unfinished-old-${suffix}`);
    renameIfFirst(unfinished, artifact);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
    removeAbandoned(artifact.folder);
  }
};

interface Completed {
  readonly recipe: string;
  readonly bytesByFile: Readonly<Record<string, number>>;
}

const completed = (recipe: string, folder: string): Completed => {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = files.map((entry) => join(entry.parentPath, entry.name));
  return {
    recipe,
    bytesByFile: Object.fromEntries(
      paths.map((path) => [path.slice(folder.length + 1), statSync(path).size]),
    ),
  };
};

/** A folder that is not complete is in the way of the one that is. */
const moveAway = (folder: string, elsewhere: string): void => {
  try {
    renameSync(folder, elsewhere);
    rmSync(elsewhere, { recursive: true, force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
};

const renameIfFirst = (unfinished: string, artifact: CachedArtifact): void => {
  try {
    renameSync(unfinished, artifact.folder);
  } catch (error) {
    if (!isCached(artifact)) throw error;
  }
};

const removeAbandoned = (folder: string): void => {
  const parent = join(folder, '..');
  for (const name of readdirSync(parent).filter((entry) => entry.includes('.unfinished-'))) {
    const path = join(parent, name);
    const modifiedMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - modifiedMs > abandonedAfterMs) rmSync(path, { recursive: true, force: true });
  }
};
