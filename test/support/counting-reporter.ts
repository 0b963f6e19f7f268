import { writeFileSync } from 'node:fs';
import Mocha from 'mocha';

/** mocha's own report, and its counts in a file for the line that closes `npm test`. */
export default class CountingReporter extends Mocha.reporters.Spec {
  override done(failures: number, end?: (failures: number) => void): void {
    const file = process.env.TEST_COUNTS_FILE;
    if (file) writeFileSync(file, JSON.stringify({ passed: this.stats.passes, failed: this.stats.failures }));
    end?.(failures);
  }
}
