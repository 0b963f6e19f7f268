import { Command, InvalidArgumentError, Option } from 'commander';
import { OperatorError } from '../operator-error.ts';
import type { DropOutcome } from '../outbox-admin/drop-event.ts';
import {
  type AggregateRef,
  type EventFilter,
  type EventRef,
  listLimitDefault,
  listLimitMax,
  parseAggregateRef,
  parseEventRef,
} from '../outbox-admin/event-selection.ts';
import type { ImportReport } from '../outbox-admin/import-backup.ts';
import { createOutboxAdmin, type OutboxAdmin } from '../outbox-admin/outbox-admin.ts';
import type { RetryReport, RetrySelection } from '../outbox-admin/retry-events.ts';
import { operatorHere } from './operator-here.ts';
import { describeEvents, describeShown } from './outbox-tables.ts';
import { withDatabase } from './session.ts';
import { table } from './table.ts';

/** Exit code for a check that has found something. */
const foundSomething = 3;
const usage = 2;

export const outboxCommand = (): Command =>
  new Command('outbox')
    .description('Events on their way to Kafka: what waits, what failed, and what to do about it')
    .addCommand(listCommand('pending', 'Committed events that the relay has not come to yet'))
    .addCommand(
      listCommand('failed', 'Events that are tried again, and those that wait behind them').option(
        '--check',
        'exit with 3 when there is one',
      ),
    )
    .addCommand(
      listCommand('dead', 'Events that nobody tries any more until somebody decides').option(
        '--check',
        'exit with 3 when there is one',
      ),
    )
    .addCommand(showCommand())
    .addCommand(retryCommand())
    .addCommand(dropCommand())
    .addCommand(importCommand());

const onOutbox = <T>(routine: (outbox: OutboxAdmin) => Promise<T>): Promise<T> =>
  withDatabase(({ database }) => routine(createOutboxAdmin(database)));

const print = (json: boolean | undefined, value: unknown, text: () => string): void =>
  console.log(json ? JSON.stringify(value, null, 2) : text());

const aggregateArgument = (text: string): AggregateRef => {
  const aggregate = parseAggregateRef(text);
  if (!aggregate) throw new InvalidArgumentError('An aggregate is Type/id, such as Order/o-1.');
  return aggregate;
};

const eventArgument = (text: string): EventRef => {
  const ref = parseEventRef(text);
  if (!ref) throw new InvalidArgumentError('An event is its number in the outbox or its event id (a UUID).');
  return ref;
};

const limitArgument = (text: string): number => {
  const limit = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > listLimitMax) throw new InvalidArgumentError(`Allowed is 1 to ${listLimitMax}.`);
  return limit;
};

const aggregateOption = (describes: string): Option =>
  new Option('--aggregate <Type/id>', describes).argParser(aggregateArgument);

interface ListOptions {
  readonly aggregate?: AggregateRef;
  readonly type?: string;
  readonly limit: number;
  readonly json?: boolean;
  readonly check?: boolean;
}

const listCommand = (name: 'pending' | 'failed' | 'dead', describes: string): Command =>
  new Command(name)
    .description(describes)
    .addOption(aggregateOption('only of this aggregate'))
    .option('--type <event type>', 'only of this type')
    .option('--limit <N>', 'at most so many, oldest first', limitArgument, listLimitDefault)
    .option('--json', 'as JSON')
    .action(({ aggregate, type, limit, json, check }: ListOptions) =>
      onOutbox(async (outbox) => {
        const filter: EventFilter = { aggregate, eventType: type, limit };
        const events = await outbox[name](filter);
        print(json, { events }, () => describeEvents(events, { kind: name, limit, now: new Date() }));
        if (check && events.length > 0) process.exitCode = foundSomething;
      }),
    );

const showCommand = (): Command =>
  new Command('show')
    .description('One event: what it says and what became of it')
    .argument('<id>', 'its number in the outbox or its event id', eventArgument)
    .option('--json', 'as JSON')
    .action((ref: EventRef, { json }: { json?: boolean }) =>
      onOutbox(async (outbox) => {
        const event = await outbox.show(ref);
        if (!event) {
          throw new OperatorError('The journal has no such event', {
            remedy: 'millrace outbox pending, failed and dead list the ones that are on their way',
          });
        }
        print(json, event, () => describeShown(event, new Date()));
      }),
    );

interface RetryOptions {
  readonly aggregate?: AggregateRef;
  readonly id?: EventRef;
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const retryCommand = (): Command =>
  new Command('retry')
    .description('Try failed and dead events again at once, each aggregate from its first one on')
    .addOption(aggregateOption('of this aggregate').conflicts(['id', 'all']))
    .addOption(
      new Option('--id <id>', 'of the aggregate of this event').argParser(eventArgument).conflicts('all'),
    )
    .option('--all', 'of every aggregate')
    .option('--dry-run', 'only say what would be tried')
    .option('--json', 'as JSON')
    .action(async (options: RetryOptions) => {
      const selection = selectionOf(options);
      const report = await onOutbox((outbox) =>
        outbox.retry(selection, { who: operatorHere(), dryRun: options.dryRun ?? false }),
      );
      print(options.json, report, () => describeRetry(report));
    });

const selectionOf = ({ aggregate, id, all }: RetryOptions): RetrySelection => {
  if (aggregate) return { aggregate };
  if (id) return { event: id };
  if (all) return 'all';
  throw new OperatorError('It is not said what to try again', {
    remedy: 'Name it with --aggregate Type/id or --id, or say --all',
    exitCode: usage,
  });
};

const describeRetry = ({ dryRun, events, aggregates, revived }: RetryReport): string =>
  events === 0
    ? 'There is nothing to try again.'
    : `${dryRun ? 'Would be due now' : 'Due now'}: ${events} events of ${aggregates} aggregates, ${revived} of them dead until now.`;

interface DropOptions {
  readonly id: EventRef;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const dropCommand = (): Command =>
  new Command('drop')
    .description('Give a failed or dead event up for good; it stays in the journal, its aggregate goes on')
    .addOption(
      new Option('--id <id>', 'its number in the outbox or its event id')
        .argParser(eventArgument)
        .makeOptionMandatory(),
    )
    .addOption(new Option('--yes', 'do it').conflicts('dryRun'))
    .option('--dry-run', 'only say what would be missed, which is what it does without --yes')
    .option('--json', 'as JSON')
    .action(async ({ id, yes, json }: DropOptions) => {
      const outcome = await onOutbox((outbox) =>
        outbox.drop(id, { who: operatorHere(), dryRun: yes !== true }),
      );
      print(json, outcome, () => describeDrop(outcome));
      if (!['dropped', 'would-drop'].includes(outcome.outcome)) process.exitCode = 1;
    });

const describeDrop = (outcome: DropOutcome): string => {
  switch (outcome.outcome) {
    case 'not-held':
      return 'No failed or dead event has this id: it was sent, dropped before, or never there.';
    case 'waits-behind':
      return `Event ${outcome.event.id} only waits behind ${outcome.firstId}: retry or drop that one.`;
    case 'being-retried':
      return `Event ${outcome.event.id} is being retried right now and may still be published: try again in a moment.`;
    case 'would-drop':
      return `Would drop event ${outcome.event.id}; say --yes to do it. ${outcome.warning}.`;
    case 'dropped':
      return `Dropped event ${outcome.event.id}. ${outcome.warning}.`;
  }
};

const importCommand = (): Command =>
  new Command('import-backup')
    .description('Bring back the dead letters that went to the backup file')
    .argument('<file>', 'JSON lines, as the relay wrote them')
    .option('--dry-run', 'only say what would be imported')
    .option('--json', 'as JSON')
    .action(async (file: string, { dryRun, json }: { dryRun?: boolean; json?: boolean }) => {
      const report = await onOutbox((outbox) =>
        outbox.importBackup(file, { who: operatorHere(), dryRun: dryRun ?? false }),
      );
      print(json, report, () => describeImport(report));
      // Lines that were not understood are still in the renamed file, and somebody has to look at them.
      if (report.lines.some(({ result }) => result === 'bad')) process.exitCode = 1;
    });

const describeImport = ({ dryRun, file, lines }: ImportReport): string =>
  [
    table([
      ['LINE', 'EVENT', 'RESULT', 'DETAIL'],
      ...lines.map(({ line, outboxId, result, detail }) => [
        String(line),
        String(outboxId ?? '-'),
        result,
        detail,
      ]),
    ]),
    dryRun ? `${file} stays where it is.` : `The file is now ${file}.`,
  ].join('\n');
