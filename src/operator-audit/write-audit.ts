import type { SqlRunner } from '../postgres/database.ts';

export interface AuditEntry {
  readonly who: string;
  readonly action:
    | 'outbox.retry'
    | 'outbox.drop'
    | 'outbox.import-backup'
    | 'relay.pause'
    | 'relay.resume'
    | 'relay.resync'
    | 'relay.reshard'
    | 'relay.dismiss-ghosts'
    | 'relay.use-wal'
    | 'topics.add-partitions'
    | 'dead-letters.replay'
    | 'dead-letters.drop'
    | 'dead-letters.release'
    | 'dead-letters.skip-version'
    | 'projections.swap'
    | 'projections.rollback'
    | 'projections.accept-loss'
    | 'projections.adopt'
    | 'projections.pause'
    | 'projections.resume';
  readonly target: Readonly<Record<string, unknown>>;
}

/** Keys of records may have the one character that PostgreSQL cannot keep. */
const asStorable = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.replaceAll('\0', '\uFFFD') : value;

const statement = {
  name: 'write-operator-audit',
  text: 'insert into operator_audit (who, action, target) values ($1, $2, $3::jsonb)',
};

/** In the transaction of the change it tells of: there is no change without its entry, and no entry without its change. */
export const writeAudit = async (tx: SqlRunner, { who, action, target }: AuditEntry): Promise<void> => {
  await tx.execute(statement, [who, action, JSON.stringify(target, asStorable)]);
};
