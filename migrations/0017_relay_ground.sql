-- What the relay's cursor takes for fixed and may change under it: the server behind the address, and its transaction ids.

-- The last checkpoint knows of a promotion only later; the log that is written now knows it at once.
create function server_timeline() returns integer
  language sql stable
  return ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer;
comment on function server_timeline is
  'The timeline that this server writes: another one after a promotion or a restore to a point in time.';

create table journal_origin (
  is_only           boolean primary key default true check (is_only),
  restored_until_id bigint not null default 0,
  restored_at       timestamptz
);
comment on table journal_origin is
  'One row. Outbox rows up to restored_until_id came with a dump: their tx_id is that of another server and says nothing here; all of them are committed.';
insert into journal_origin default values;

-- A delta is stored when it is opened, before anything of it is published. A relay may move its cursor only while that row
-- is there: a server that was promoted without it gives the delta's transaction ids to others.
alter table outbox_cursor
  add column timeline integer,
  add column first_id bigint,
  add column final_id bigint,
  add column restored_last_id bigint;
comment on column outbox_cursor.timeline is 'The timeline of the server that wrote the row.';
comment on column outbox_cursor.first_id is
  'The first row of the delta whose transaction began after from_snapshot; those that were open in it may have written earlier ones.';
comment on column outbox_cursor.final_id is 'The last row of the delta.';
comment on column outbox_cursor.restored_last_id is
  'Of the rows that came with a dump those up to here are passed; all of them where it is null.';
create index outbox_cursor_age on outbox_cursor (created_at);
