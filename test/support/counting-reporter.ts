import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import Mocha from 'mocha';

/** What a run leaves behind for `npm test`, which may consist of several. */
export interface RunReport {
  readonly passed: number;
  readonly failed: number;
  /** How long each spec file took, hooks included. */
  readonly files: readonly { readonly file: string; readonly seconds: number }[];
}

/** mocha's own report, and its counts in a file for the lines that close `npm test`. */
export default class CountingReporter extends Mocha.reporters.Spec {
  readonly #msByFile = new Map<string, number>();

  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const { EVENT_SUITE_BEGIN, EVENT_SUITE_END } = Mocha.Runner.constants;
    const fileOf = ({ file, parent }: Mocha.Suite): string | undefined => (parent?.root ? file : undefined);
    let startedMs = 0;
    runner.on(EVENT_SUITE_BEGIN, (suite) => {
      if (fileOf(suite)) startedMs = performance.now();
    });
    runner.on(EVENT_SUITE_END, (suite) => {
      const file = fileOf(suite);
      if (!file) return;
      const ms = performance.now() - startedMs;
      this.#msByFile.set(file, (this.#msByFile.get(file) ?? 0) + ms);
    });
  }

  override done(failures: number, end?: (failures: number) => void): void {
    const file = process.env.TEST_COUNTS_FILE;
    if (file) {
      const report: RunReport = {
        passed: this.stats.passes,
        failed: this.stats.failures,
        files: [...this.#msByFile].map(([path, ms]) => ({
          file: relative(process.cwd(), path),
          seconds: ms / 1000,
        })),
      };
      writeFileSync(file, JSON.stringify(report));
    }
    end?.(failures);
  }
}
