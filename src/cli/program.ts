import { Command } from 'commander';
import { configCommand } from './config.ts';
import { dlqCommand } from './dlq.ts';
import { migrateCommand } from './migrate.ts';
import { outboxCommand } from './outbox.ts';
import { rebuildCommand } from './rebuild.ts';
import { relayCommand } from './relay.ts';
import { resetCommand } from './reset.ts';
import { schemasCommand } from './schemas.ts';
import { statusCommand } from './status.ts';
import { topicsCommand } from './topics.ts';
import { topologiesCommand } from './topologies.ts';
import { upCommand } from './up.ts';

export const buildProgram = (): Command => {
  const program = new Command('millrace')
    .description('Event-sourced commerce on PostgreSQL and Kafka.')
    .exitOverride()
    .showHelpAfterError('Run it with --help to see what it takes.');
  for (const command of [
    upCommand(),
    statusCommand(),
    configCommand(),
    migrateCommand(),
    topicsCommand(),
    schemasCommand(),
    relayCommand(),
    outboxCommand(),
    dlqCommand(),
    rebuildCommand(),
    topologiesCommand(),
    resetCommand(),
  ]) {
    program.addCommand(command);
  }
  // Subcommands do not inherit this, and without it commander ends the process with its own exit code.
  const override = (command: Command): void => {
    command.exitOverride();
    command.commands.forEach(override);
  };
  override(program);
  return program;
};
