import type { Database } from '../postgres/database.ts';
import { type Build, schemaOf, setStatus } from './build.ts';
import { executeAll } from './execute-ddl.ts';

const leavings = [
  'delete from projection_checkpoint where projection = $1 and version = $2',
  'delete from projection_task where projection = $1 and version = $2',
  'delete from projection_log_break where projection = $1 and version = $2',
  'delete from projection_topic where projection = $1 and version = $2',
  'delete from projection_parked_key where projection = $1 and version = $2',
  'delete from projection_state where projection = $1 and version = $2',
  'delete from projection_action where projection = $1 and version = $2',
  `delete from projection_fact where kind in (select id from projection_fact_kind where projection = $1 and version = $2)`,
  'delete from projection_fact_kind where projection = $1 and version = $2',
  `delete from projection_handled where scope in (select id from projection_scope where projection = $1 and version = $2)`,
  'delete from projection_scope where projection = $1 and version = $2',
].map((text, index) => ({ name: `drop-build-${index + 1}`, text }));

const forgetStatement = {
  name: 'forget-build',
  text: 'delete from projection_build where projection = $1 and version = $2',
};

/** Takes a build away with everything it has left. Broken off, it is finished by the next rebuild. */
export const dropBuild = async (
  database: Database,
  build: Pick<Build, 'projection' | 'version'>,
): Promise<void> => {
  const { projection, version } = build;
  if (!(await setStatus(database, build, 'dropping'))) return;
  for (const statement of leavings) await database.execute(statement, [projection, version]);
  await database.transaction(async (tx) => {
    await executeAll(tx, [`drop schema if exists ${schemaOf(build)} cascade`]);
    await tx.execute(forgetStatement, [projection, version]);
  });
};
