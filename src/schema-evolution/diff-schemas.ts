import { type Change, changesBetween } from './compare-schemas.ts';
import { readEventSchemas } from './event-schemas.ts';
import { newestRelease, readReleases } from './released-history.ts';
import { parseModel } from './schema-model.ts';

/** How a schema differs from its newest release. */
export interface SchemaDiff {
  readonly schema: string;
  /** The newest released version; undefined where there is none yet. */
  readonly released: number | undefined;
  readonly changes: readonly Change[];
}

/** The working tree against what was released last; schemas that are as released are left out. */
export const diffSchemas = (avroDir: string): readonly SchemaDiff[] => {
  const releases = readReleases(avroDir);
  return readEventSchemas(avroDir).schemas.flatMap(
    ({ fullName, envelope, isWritten }): readonly SchemaDiff[] => {
      const newest = newestRelease(releases, fullName);
      if (!newest) return [{ schema: fullName, released: undefined, changes: [] }];
      const changes = isWritten ? changesBetween(parseModel(newest.json), envelope) : [];
      return changes.length > 0 ? [{ schema: fullName, released: newest.number, changes }] : [];
    },
  );
};
