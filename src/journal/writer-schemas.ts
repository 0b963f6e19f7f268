import type { Type } from 'avsc';
import { envelopeSchemas, parseSchema } from '../avro/envelope-schema.ts';
import type { SqlRunner } from '../postgres/database.ts';

export interface WriterSchema {
  readonly json: string;
  readonly fullName: string;
  readonly type: Type;
}

/** A row says that it was written with a schema that nobody has stored. */
export class UnknownFingerprint extends Error {
  override readonly name = 'UnknownFingerprint';
}

const storeStatement = {
  name: 'store-writer-schemas',
  text: `
    insert into avro_schema (fingerprint, name, schema)
    select * from unnest($1::bytea[], $2::text[], $3::json[])
    on conflict (fingerprint) do nothing`,
};

/** Before the first command: whatever is written from now on can be read for ever. */
export const storeWriterSchemas = async (db: SqlRunner): Promise<void> => {
  const schemas = [...envelopeSchemas.values()];
  await db.execute(storeStatement, [
    schemas.map((schema) => Buffer.from(schema.fingerprint, 'hex')),
    schemas.map((schema) => schema.fullName),
    schemas.map((schema) => schema.json),
  ]);
};

const loadStatement = {
  name: 'load-writer-schema',
  text: 'select name, schema::text as json from avro_schema where fingerprint = $1',
};

/** Finds the schema a row was written with: today's from the code, older ones from the database, each once. */
export const createWriterSchemas = (db: SqlRunner) => {
  const known = new Map<string, WriterSchema>();
  for (const schema of envelopeSchemas.values()) known.set(schema.fingerprint, schema);

  return {
    find: async (fingerprint: Buffer): Promise<WriterSchema> => {
      const key = fingerprint.toString('hex');
      const cached = known.get(key);
      if (cached) return cached;
      const [row] = await db.execute<{ name: string; json: string }>(loadStatement, [fingerprint]);
      if (!row) throw new UnknownFingerprint(`The journal has no schema with the fingerprint ${key}`);
      const loaded = { json: row.json, fullName: row.name, type: parseSchema(row.json) };
      known.set(key, loaded);
      return loaded;
    },
  };
};
export type WriterSchemas = ReturnType<typeof createWriterSchemas>;
