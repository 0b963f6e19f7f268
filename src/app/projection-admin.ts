import type { Config } from '../config/settings.ts';
import type { Database } from '../postgres/database.ts';
import { createProjectionAdmin, type ProjectionAdmin } from '../projection-admin/projection-admin.ts';
import { projections } from './projections.ts';

/** The tools for the projections of this program. */
export const projectionAdminOf = (database: Database, config: Config): ProjectionAdmin =>
  createProjectionAdmin(
    database,
    projections(config).map(({ name }) => name),
  );
