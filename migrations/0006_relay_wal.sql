-- How far the relay has come in the write-ahead log, when it reads from there (RELAY_SOURCE=wal).
create table outbox_wal_position (
  id                bigint generated always as identity primary key,
  slot              text not null,
  lsn               pg_lsn not null,
  rows_settled      integer not null,
  -- Rows visible in here belong to the cursor, which has not passed all of them yet.
  cursor_until      pg_snapshot,
  -- What is visible in the snapshot was committed below this position of the log: the way back to the cursor.
  mark_snapshot     pg_snapshot not null,
  mark_lsn          pg_lsn not null,
  system_identifier bigint not null,
  lease_token       bigint,
  moved_at          timestamptz not null default clock_timestamp()
);
comment on table outbox_wal_position is
  'The newest row of a slot counts: transactions whose commit record lies before lsn are settled, and of the one at lsn the first rows_settled rows.';
create index outbox_wal_position_slot on outbox_wal_position (slot, id desc);
