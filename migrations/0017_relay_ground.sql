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

create function require_cursor_row(cursor_id bigint, written_at timestamptz) returns boolean
  language plpgsql stable as $$
begin
  if exists (select from outbox_cursor where id = cursor_id and created_at = written_at) then
    return true;
  end if;
  raise exception 'this server has no cursor row % of %', cursor_id, written_at using errcode = 'MR001';
end
$$;
comment on function require_cursor_row is
  'Fails on a server that does not have the row: a delta that was opened elsewhere must not be read here.';

-- As before, and: only slots of this database count, and rows that came with a dump are passed by id.
create or replace view outbox_position as
  select part.shard, s.shards,
         coalesce(wal.mark_snapshot, c.from_snapshot, '1:1:'::pg_snapshot) as from_snapshot,
         coalesce(wal.mark_snapshot, c.to_snapshot, '1:1:'::pg_snapshot) as to_snapshot,
         case when wal.mark_snapshot is null then coalesce(c.last_id, 0) else 0 end as last_id,
         coalesce(wal.system_identifier, c.system_identifier) as system_identifier,
         case when wal.mark_snapshot is null then c.restored_last_id end as restored_last_id
  from relay_sharding s
  cross join lateral generate_series(1, s.shards) as part(shard)
  left join lateral (
    select from_snapshot, to_snapshot, last_id, restored_last_id, system_identifier from outbox_cursor
    where shards = s.shards and shard = part.shard order by id desc limit 1) c on true
  left join lateral (
    select mark.mark_snapshot, mark.system_identifier
    from (select slot, lsn, cursor_until from outbox_wal_position order by id desc limit 1) newest
    left join pg_replication_slots confirmed
      on confirmed.slot_name = newest.slot and confirmed.database = current_database()
    join outbox_wal_position mark
      on mark.slot = newest.slot and mark.mark_lsn <= greatest(newest.lsn, confirmed.confirmed_flush_lsn)
    where newest.cursor_until is null
    order by mark.id desc limit 1) wal on s.shards = 1;
