import { readdirSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';

/** `npm run bench -- <name>` runs bench/<name>.ts, which exports `run`; more words choose parts of it, where it has parts. */
const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && file !== 'run.ts')
  .map((file) => file.replace(/\.ts$/, ''));

const [name, ...parts] = process.argv.slice(2);
if (name === undefined || !names.includes(name)) {
  console.error(`Usage: npm run bench -- <name>, where name is one of: ${names.join(', ')}`);
  process.exit(2);
}
console.log(
  `${name} on ${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`,
);
const benchmark = (await import(`./${name}.ts`)) as { run: (parts: readonly string[]) => Promise<void> };
await benchmark.run(parts);
