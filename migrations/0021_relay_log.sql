-- What the relay stands on when it reads the write-ahead log, and what is to be known when that has gone.

-- A position of the log means something on one timeline only: a server that was promoted writes another log from there on.
alter table outbox_wal_position
  add column timeline integer not null default server_timeline();
comment on column outbox_wal_position.timeline is 'The timeline of the server whose log was read up to lsn.';

create table relay_log_loss (
  is_only boolean primary key default true check (is_only),
  slot    text not null,
  reason  text not null,
  since   timestamptz not null default clock_timestamp()
);
comment on table relay_log_loss is
  'No row, or one: the replication slot was lost, and relays that should read the write-ahead log read the outbox by snapshots until an operator lets them return.';
