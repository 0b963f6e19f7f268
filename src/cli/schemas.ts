import { Command } from 'commander';
import { registerSchemas } from '../registry/register-schemas.ts';
import { withServers } from './session.ts';
import { table } from './table.ts';

export const schemasCommand = (): Command => {
  const register = new Command('register')
    .description('Register the Avro schemas this version writes with; again changes nothing')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) =>
      withServers('working', async ({ adapters }) => {
        const registered = await registerSchemas(adapters.registry);
        if (json) console.log(JSON.stringify({ schemas: registered }, null, 2));
        else {
          const rows = registered.map(({ subject, schemaId, fullName }) => [
            subject,
            String(schemaId),
            fullName,
          ]);
          console.log(table([['SUBJECT', 'ID', 'RECORD'], ...rows]));
        }
      }),
    );
  return new Command('schemas').description('Avro schemas').addCommand(register);
};
