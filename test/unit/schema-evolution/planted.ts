import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { goldenPath } from '../../../src/app/golden-path.ts';
import { avroDir } from '../../../src/avro/envelope-schema.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { type CheckReport, checkSchemas } from '../../../src/schema-evolution/check-schemas.ts';
import type { CompatibilityPolicy } from '../../../src/schema-evolution/compatibility-policy.ts';
import type { Finding } from '../../../src/schema-evolution/finding.ts';
import { planReleases, writeReleases } from '../../../src/schema-evolution/release-schemas.ts';

export interface SchemaField {
  name: string;
  doc?: string;
  type: unknown;
  default?: unknown;
  aliases?: string[];
}
interface Schema {
  name: string;
  namespace: string;
  doc?: string;
  fields: SchemaField[];
}

/** The projections over topics without a prefix, and the readers as they are. */
export const realPath = goldenPath(loadConfig({ env: {}, envFile: '/dev/null' }).config);

/** A copy of the folder `avro` to plant mistakes into, removed when the spec is over. */
export const plantedFolder = () => {
  const folders: string[] = [];
  afterEach(() => {
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
  });

  return () => {
    const dir = mkdtempSync(join(tmpdir(), 'millrace-avro-'));
    folders.push(dir);
    cpSync(avroDir, dir, { recursive: true });
    const at = (file: string): string => join(dir, file);
    return {
      dir,
      remove: (file: string) => rmSync(at(file)),
      write: (file: string, text: string) => writeFileSync(at(file), text),
      read: (file: string) => readFileSync(at(file), 'utf8'),
      /** Changes a schema, or any other JSON in the folder. */
      edit: <T = Schema>(file: string, change: (content: T) => void) => {
        const content = JSON.parse(readFileSync(at(file), 'utf8')) as T;
        change(content);
        writeFileSync(at(file), JSON.stringify(content));
      },
      check: (policy: CompatibilityPolicy = 'FULL_TRANSITIVE'): CheckReport =>
        checkSchemas({ avroDir: dir, policy }),
      release: () => {
        const planned = planReleases(dir, realPath);
        writeReleases(dir, planned);
        return planned;
      },
    };
  };
};
export type PlantedFolder = ReturnType<ReturnType<typeof plantedFolder>>;

export const fieldOf = (schema: { fields: SchemaField[] }, name: string): SchemaField => {
  const field = schema.fields.find((candidate) => candidate.name === name);
  if (!field) throw new Error(`There is no field ${name}`);
  return field;
};

/** Where and which rule, which is what the specs compare. */
export const brief = ({ findings }: { readonly findings: readonly Finding[] }): readonly string[] =>
  findings.map(({ schema, path, rule }) => [schema, path, rule].filter((part) => part !== '').join(' '));
