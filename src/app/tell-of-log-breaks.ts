import type { Logger } from 'pino';
import type { SqlRunner } from '../postgres/database.ts';
import { findResyncStart } from '../relay/resync-start.ts';
import type { BegunAnew, StreamsObserver } from '../streams/ports.ts';
import type { LogBreak } from '../streams/record.ts';

const happened: Readonly<Record<LogBreak, string>> = {
  recreated: 'The topic was deleted and made anew. It is read from its beginning',
  truncated:
    'The brokers have lost the end of a partition that was read: its log goes on before the checkpoint with other records. It is read again from where it is known to be the same',
};

/** Lets an operator know that Kafka has lost events, and what brings them back. */
export const tellingOfLogBreaks = (
  observer: StreamsObserver,
  { database, log }: { readonly database: SqlRunner; readonly log: Logger },
): StreamsObserver => ({
  ...observer,
  begunAnew: (projection, told) => {
    observer.begunAnew(projection, told);
    void tell(told, { database, log: log.child({ projection: projection.name }) });
  },
});

const tell = async (
  { logBreak, streamTimeMs, ...place }: BegunAnew,
  { database, log }: { readonly database: SqlRunner; readonly log: Logger },
): Promise<void> => {
  const fromId = await findResyncStart(database, streamTimeMs).catch(() => undefined);
  log.error(
    { ...place, logBreak },
    `${happened[logBreak]}; what was applied before counts once. Lost events that had not been applied are missing from the read model. The journal has them: npx millrace relay resync --from-id ${fromId ?? '<id, see npx millrace status>'} publishes them again`,
  );
};
