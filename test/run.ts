import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunReport } from './support/counting-reporter.ts';

/**
 * The whole check in one command: format, lint, types and schemas first, then the specs, then one line that counts.
 * `node test/run.ts unit` runs one folder of specs without the checks.
 */
const suites = ['unit', 'integration', 'e2e', 'faults'];

/** Most specs wait more than they compute: two runs side by side, each with servers of its own, take half the time. */
const lanes: readonly (readonly string[])[] = [
  ['unit', 'faults'],
  ['integration', 'e2e'],
];

interface Counts {
  passed: number;
  failed: number;
}

interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Where its output goes instead of this process's own. */
  readonly outputFile?: string;
}

const run = (command: string, args: readonly string[], options: RunOptions = {}): Promise<number> =>
  new Promise((resolve, reject) => {
    const output = options.outputFile === undefined ? 'inherit' : openSync(options.outputFile, 'w');
    const child = spawn(command, args, {
      stdio: ['inherit', output, output],
      env: { ...process.env, ...options.env },
    });
    // Ctrl-C reaches the child as well; this process stays to tell how it ended.
    const ignore = (): void => {};
    process.on('SIGINT', ignore);
    child.once('error', reject);
    child.once('exit', (code) => {
      process.off('SIGINT', ignore);
      if (output !== 'inherit') closeSync(output);
      resolve(code ?? 1);
    });
  });

const bin = (name: string): string => join(import.meta.dirname, '..', 'node_modules', '.bin', name);
const millrace = join(import.meta.dirname, '..', 'src', 'cli', 'millrace.ts');

const runChecks = async (): Promise<Counts> => {
  const counts: Counts = { passed: 0, failed: 0 };
  for (const [title, command, args] of [
    ['format and lint', bin('biome'), ['ci', '--error-on-warnings', '--colors=off']],
    ['types', bin('tsc'), ['--noEmit']],
    ['schemas', process.execPath, [millrace, 'schemas', 'check', '--offline', '--released']],
    ['pictures of the projections', process.execPath, [millrace, 'topologies', 'document', '--check']],
  ] as const) {
    const code = await run(command, args);
    process.stdout.write(`${code === 0 ? 'ok' : 'FAILED'}: ${title}\n`);
    if (code === 0) counts.passed++;
    else counts.failed++;
  }
  return counts;
};

/** What the first lane prints goes straight out; what the others print comes, whole, when they are done. */
const runLanes = async (): Promise<RunReport> => {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-lanes-'));
  const reports: RunReport[] = [];
  try {
    const running = lanes.map((folders, lane) => {
      const outputFile = lane === 0 ? undefined : join(dir, `lane-${lane}`);
      return { outputFile, report: runSpecs(folders, outputFile) };
    });
    for (const { outputFile, report } of running) {
      reports.push(await report);
      if (outputFile !== undefined) process.stdout.write(readFileSync(outputFile));
    }
    const sumOf = (count: 'passed' | 'failed') => reports.reduce((sum, report) => sum + report[count], 0);
    return {
      passed: sumOf('passed'),
      failed: sumOf('failed'),
      files: reports.flatMap(({ files }) => files),
    };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
};

const runSpecs = async (folders: readonly string[], outputFile?: string): Promise<RunReport> => {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-counts-'));
  const file = join(dir, 'counts.json');
  try {
    const code = await run(
      bin('mocha'),
      folders.map((folder) => `test/${folder}/**/*.spec.ts`),
      { env: { TEST_COUNTS_FILE: file }, ...(outputFile !== undefined && { outputFile }) },
    );
    const report = readReport(file);
    // mocha can fail without a failed test: a leak, a crash, a spec that does not load.
    return code !== 0 && report.failed === 0 ? { ...report, failed: 1 } : report;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
};

const readReport = (file: string): RunReport => {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as RunReport;
  } catch {
    return { passed: 0, failed: 1, files: [] };
  }
};

const slowestShown = 20;

const printSlowest = (files: RunReport['files']): void => {
  const slowest = files.toSorted((a, b) => b.seconds - a.seconds).slice(0, slowestShown);
  const lines = slowest.map(({ file, seconds }) => `${seconds.toFixed(1).padStart(8)} s  ${file}\n`);
  process.stdout.write(`Slowest spec files:\n${lines.join('')}`);
};

const [suite] = process.argv.slice(2);
if (suite !== undefined && !suites.includes(suite)) {
  process.stderr.write(`There is no suite ${suite}; there are ${suites.join(', ')}.\n`);
  process.exit(2);
}
const checks = suite === undefined ? await runChecks() : { passed: 0, failed: 0 };
const specs = await (suite === undefined ? runLanes() : runSpecs([suite]));
if (suite === undefined) printSlowest(specs.files);
const failed = checks.failed + specs.failed;
process.stdout.write(`${checks.passed + specs.passed} passed, ${failed} failed\n`);
process.exitCode = failed === 0 ? 0 : 1;
