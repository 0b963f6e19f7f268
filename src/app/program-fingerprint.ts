import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project-root.ts';

/** Tells whether two processes run the same program: its code and its schemas. */
export const programFingerprint = (): string => {
  const hash = createHash('sha256');
  for (const folder of [join(import.meta.dirname, '..'), join(projectRoot, 'avro')]) {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
    for (const file of files.filter((name) => /\.(ts|js|avsc)$/.test(name)))
      hash.update(file).update(readFileSync(join(folder, file)));
  }
  return hash.digest('hex');
};
