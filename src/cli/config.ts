import { Command } from 'commander';
import { readConfig } from './session.ts';
import { table } from './table.ts';

export const configCommand = (): Command =>
  new Command('config')
    .description('Print every setting with its value and where it came from')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) => {
      const { report } = readConfig();
      if (json) {
        const masked = report.map(({ variable, shown, origin, describes }) => ({
          variable,
          value: shown,
          origin,
          describes,
        }));
        console.log(JSON.stringify(masked, null, 2));
        return;
      }
      const rows = report.map(({ variable, shown, origin, describes }) => [
        variable,
        shown,
        origin,
        describes,
      ]);
      console.log(table([['SETTING', 'VALUE', 'FROM', 'WHAT IT IS'], ...rows]));
    });
