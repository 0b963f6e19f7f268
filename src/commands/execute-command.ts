import type { Decider } from '../domain/decider.ts';
import type { DomainEvent } from '../domain/domain-event.ts';
import { appendEvents, VersionConflict } from '../journal/append-events.ts';
import { readStream } from '../journal/read-stream.ts';
import { type CommandContext, type StreamId, sealEvent } from '../journal/seal-event.ts';
import type { WriterSchemas } from '../journal/writer-schemas.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';

export interface CommandPorts {
  readonly database: Database;
  readonly schemas: WriterSchemas;
  readonly source: string;
  readonly clock: () => Date;
  readonly newEventId: () => string;
  /** Times a command that lost a race is decided again before it gives up. */
  readonly conflictRetriesMax: number;
  /** Called after the commit, so that the relay need not wait for its next poll. */
  readonly onCommitted: () => void;
}

export type CommandResult<Rejection> =
  | { readonly outcome: 'accepted'; readonly version: number }
  | { readonly outcome: 'rejected'; readonly rejection: Rejection };

interface Execution<Command, State, Event extends DomainEvent, Rejection> {
  readonly decider: Decider<Command, State, Event, Rejection>;
  readonly stream: StreamId;
  readonly command: Command;
  readonly context: CommandContext;
  /** Ids of the events to come, for streams that are named after their first event. */
  readonly firstEventId?: string;
}

/** Loads the aggregate, lets it decide, appends what it decided: one transaction, repeated whole when somebody was faster. */
export const executeCommand = async <Command, State, Event extends DomainEvent, Rejection>(
  ports: CommandPorts,
  execution: Execution<Command, State, Event, Rejection>,
): Promise<CommandResult<Rejection>> => {
  for (let attempt = 0; ; attempt++) {
    try {
      const result = await ports.database.transaction((tx) => decideAndAppend(ports, tx, execution));
      if (result.outcome === 'accepted') ports.onCommitted();
      return result;
    } catch (error) {
      if (!(error instanceof VersionConflict) || attempt >= ports.conflictRetriesMax) throw error;
    }
  }
};

const decideAndAppend = async <Command, State, Event extends DomainEvent, Rejection>(
  ports: CommandPorts,
  tx: SqlRunner,
  { decider, stream, command, context, firstEventId }: Execution<Command, State, Event, Rejection>,
): Promise<CommandResult<Rejection>> => {
  const history = (await readStream(tx, ports.schemas, stream)) as readonly Event[];
  const state = history.reduce(decider.evolve, decider.initialState);
  const decision = decider.decide(command, state);
  if (decision.outcome === 'rejected') return decision;

  const occurredAt = ports.clock();
  const sealed = decision.events.map((event, index) =>
    sealEvent({
      eventId: (index === 0 ? firstEventId : undefined) ?? ports.newEventId(),
      stream,
      version: history.length + index + 1,
      event,
      occurredAt,
      source: ports.source,
      context,
    }),
  );
  await appendEvents(tx, sealed);
  return { outcome: 'accepted', version: history.length + sealed.length };
};
