import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { goldenPath } from '../app/golden-path.ts';
import { avroDir } from '../avro/envelope-schema.ts';
import { OperatorError } from '../operator-error.ts';
import { projectRoot } from '../project-root.ts';
import { checkRegistry, type RegistryReport } from '../registry/check-registry.ts';
import { registerSchemas } from '../registry/register-schemas.ts';
import { connectRegistryRest } from '../registry/registry-rest.ts';
import { type CheckReport, checkSchemas } from '../schema-evolution/check-schemas.ts';
import { type CompatibilityPolicy, compatibilityPolicies } from '../schema-evolution/compatibility-policy.ts';
import { describeFinding, describeReport } from '../schema-evolution/describe-findings.ts';
import { diffSchemas } from '../schema-evolution/diff-schemas.ts';
import { readEventSchemas } from '../schema-evolution/event-schemas.ts';
import { generateTypes, typesFile } from '../schema-evolution/generate-types.ts';
import { checkGoldenEvents } from '../schema-evolution/golden-events.ts';
import { acceptGoldenEvents, planReleases, writeReleases } from '../schema-evolution/release-schemas.ts';
import { readConfig, withServers } from './session.ts';
import { table } from './table.ts';

/** Exit code for a check that has found something. */
const foundSomething = 3;

export const schemasCommand = (): Command =>
  new Command('schemas')
    .description('Avro schemas: what changed, whether it may, and what was ever released')
    .addCommand(checkCommand())
    .addCommand(diffCommand())
    .addCommand(releaseCommand())
    .addCommand(goldenCommand())
    .addCommand(typesCommand())
    .addCommand(registerCommand());

const path = () => goldenPath(readConfig().config);

const print = (json: boolean | undefined, value: unknown, text: () => string): void =>
  console.log(json ? JSON.stringify(value, null, 2) : text());

/** Everything that can be told without a server: rules, history, compatibility, golden events. */
const offlineReport = (policy: CompatibilityPolicy): CheckReport => {
  const report = checkSchemas({ avroDir, policy });
  // Golden events are read with the schemas of the working tree, which must be sound for that.
  const golden = report.findings.length === 0 ? checkGoldenEvents(avroDir, path()) : [];
  return { ...report, findings: [...report.findings, ...golden] };
};

interface CheckOptions {
  readonly json?: boolean;
  readonly offline?: boolean;
  readonly policy?: CompatibilityPolicy;
  readonly released?: boolean;
}

const checkCommand = (): Command =>
  new Command('check')
    .description(
      'Check every schema against the rules, every released version, the golden events and the registry',
    )
    .option('--offline', 'do not ask the registry')
    .option('--released', 'also fail when a schema is not released as it is')
    .addOption(
      new Option('--policy <level>', 'instead of SCHEMA_COMPATIBILITY').choices(compatibilityPolicies),
    )
    .option('--json', 'as JSON')
    .action(
      async ({
        json,
        offline,
        released,
        policy = readConfig().config.registry.compatibility,
      }: CheckOptions) => {
        const report = offlineReport(policy);
        const registry = offline ? undefined : await askRegistry(policy);
        print(json, { ...report, registry }, () =>
          [describeReport(report), ...(registry ? [describeRegistry(registry)] : [])].join('\n'),
        );
        const found = report.findings.length + (registry?.findings.length ?? 0);
        if (found > 0 || (released && report.unreleased.length > 0)) process.exitCode = foundSomething;
      },
    );

const askRegistry = (policy: CompatibilityPolicy): Promise<RegistryReport> =>
  withServers('working', ({ config, infrastructure }) =>
    checkRegistry(
      connectRegistryRest({
        url: infrastructure.endpoints.schemaRegistryUrl,
        requestTimeoutMs: config.registry.requestTimeoutMs,
      }),
      policy,
      readEventSchemas(avroDir).schemas,
    ),
  );

const describeRegistry = ({ subjects, findings }: RegistryReport): string => {
  const count = (answer: string): number => subjects.filter((subject) => subject.answer === answer).length;
  return [
    ...findings.map(describeFinding),
    `registry: ${count('compatible')} compatible, ${count('incompatible')} incompatible, ${count('new')} new to it`,
  ].join('\n');
};

const diffCommand = (): Command =>
  new Command('diff')
    .description('Show what changed since the newest release, field by field')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) => {
      const diffs = diffSchemas(avroDir);
      print(json, { schemas: diffs }, () => {
        if (diffs.length === 0) return 'Every schema is as it was released.';
        const rows = diffs.flatMap(({ schema, released, changes }) =>
          released === undefined
            ? [[schema, '', 'new', 'never released']]
            : changes.map(({ path, kind, what }) => [schema, path, kind, what]),
        );
        return table([['SCHEMA', 'FIELD', 'CHANGE', 'DETAIL'], ...rows]);
      });
    });

const releaseCommand = (): Command =>
  new Command('release')
    .description('Freeze the schemas that differ from their newest release, with golden events')
    .option('--dry-run', 'only say what would be frozen')
    .option('--json', 'as JSON')
    .action(({ dryRun, json }: { dryRun?: boolean; json?: boolean }) => {
      const report = offlineReport(readConfig().config.registry.compatibility);
      if (report.findings.length > 0) {
        console.error(describeReport(report));
        throw new OperatorError('Nothing is released while the check finds something', {
          remedy: 'Mend what it names, then release',
          exitCode: foundSomething,
        });
      }
      const planned = planReleases(avroDir, path());
      if (!dryRun) writeReleases(avroDir, planned);
      const rows = planned.map(({ fullName, number, golden }) => ({
        schema: fullName,
        release: number,
        golden: [...golden.keys()],
      }));
      print(json, { dryRun: dryRun ?? false, releases: rows }, () =>
        rows.length === 0
          ? 'Every schema is as it was released.'
          : table([
              ['SCHEMA', dryRun ? 'WOULD BE' : 'RELEASE', 'GOLDEN EVENTS'],
              ...rows.map(({ schema, release, golden }) => [schema, String(release), golden.join(', ')]),
            ]),
      );
    });

const goldenCommand = (): Command =>
  new Command('golden')
    .description('Check that the golden events still come to what they must')
    .option('--accept', 'expect what comes of them now; their bytes stay as they are')
    .option('--json', 'as JSON')
    .action(({ accept, json }: { accept?: boolean; json?: boolean }) => {
      const accepted = accept ? acceptGoldenEvents(avroDir, path()) : [];
      const findings = checkGoldenEvents(avroDir, path());
      print(json, { accepted, findings }, () =>
        [
          ...accepted.map((file) => `accepted: ${file}`),
          ...findings.map(describeFinding),
          findings.length === 0 ? 'ok: every golden event comes to what it must' : `${findings.length} found`,
        ].join('\n'),
      );
      if (findings.length > 0) process.exitCode = foundSomething;
    });

const typesCommand = (): Command =>
  new Command('types')
    .description(`Write ${typesFile} from the schemas`)
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) => {
      writeFileSync(join(projectRoot, typesFile), generateTypes(avroDir));
      print(json, { file: typesFile }, () => `${typesFile} is current.`);
    });

const registerCommand = (): Command =>
  new Command('register')
    .description('Register the Avro schemas that records are or were written with; again changes nothing')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) =>
      withServers('working', async ({ adapters }) => {
        const registered = await registerSchemas(adapters.registry);
        print(json, { schemas: registered }, () =>
          table([
            ['SUBJECT', 'ID', 'RECORD'],
            ...registered.map(({ subject, schemaId, fullName }) => [subject, String(schemaId), fullName]),
          ]),
        );
      }),
    );
