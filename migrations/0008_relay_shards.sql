-- Several relays at work at once: the journal split by a hash of the partition key, each shard with its own lease and
-- its own cursor.

-- Never by event id: all events of a key, and so all of an aggregate, must go through the same shard to stay in order.
-- PostgreSQL keeps this hash the same for the life of a database server, since its own hash partitions rest on it.
create function outbox_shard(partition_key text, shards integer) returns integer
  language sql immutable parallel safe
  return ((hashtextextended(partition_key, 0) & 9223372036854775807) % shards)::integer + 1;
comment on function outbox_shard is 'Which of so many shards, counted from 1, an event belongs to.';

create table relay_sharding (
  is_only    boolean primary key default true check (is_only),
  shards     integer not null default 1 check (shards between 1 and 64),
  begun_at   timestamptz,
  changed_at timestamptz not null default clock_timestamp()
);
comment on table relay_sharding is
  'One row: the number of shards in force, so that all relays agree. Until a relay has begun, its setting decides.';
insert into relay_sharding (begun_at)
  select coalesce((select min(created_at) from outbox_cursor), (select min(moved_at) from outbox_wal_position));

alter table outbox_cursor
  add column shard integer not null default 1,
  add column shards integer not null default 1;
comment on table outbox_cursor is
  'Append-only, the newest row of a shard counts: rows visible in from_snapshot are published, of those visible only in to_snapshot the ones up to last_id.';
create index outbox_cursor_shard on outbox_cursor (shards, shard, id desc);

create table relay_process (
  name        text primary key,
  alive_until timestamptz not null,
  started_at  timestamptz not null default clock_timestamp()
);
comment on table relay_process is 'The relays that are alive: shards are spread over them evenly.';

-- Who had the lease before and let it run out instead of giving it back, and how often that has happened.
alter table scheduler_lock
  add column lapsed_from text,
  add column lapses integer not null default 0;
comment on column scheduler_lock.lapsed_from is
  'Whom the present holder has it from, when that one did not give it back: it was killed, or too slow.';

create table relay_suspicion (
  lease      text primary key,
  position   text not null,
  deaths     integer not null,
  suspect_id bigint,
  noted_at   timestamptz not null default clock_timestamp()
);
comment on table relay_suspicion is
  'How many relays ended at the same position without getting past it, and which event the last of them was trying alone.';

alter table outbox_failed add column unanswered_count integer not null default 0;
comment on column outbox_failed.unanswered_count is
  'Tries that began and never came to an end, one after the other: the event seems to end the process that tries it.';

-- How far the relay has come in each shard, whichever way it reads. What it has settled from the write-ahead log is known
-- to lie below the newest mark that its position has passed; that can be a page behind, never ahead.
create view outbox_position as
  select part.shard, s.shards,
         coalesce(wal.mark_snapshot, c.from_snapshot, '1:1:'::pg_snapshot) as from_snapshot,
         coalesce(wal.mark_snapshot, c.to_snapshot, '1:1:'::pg_snapshot) as to_snapshot,
         case when wal.mark_snapshot is null then coalesce(c.last_id, 0) else 0 end as last_id,
         coalesce(wal.system_identifier, c.system_identifier) as system_identifier
  from relay_sharding s
  cross join lateral generate_series(1, s.shards) as part(shard)
  left join lateral (
    select from_snapshot, to_snapshot, last_id, system_identifier from outbox_cursor
    where shards = s.shards and shard = part.shard order by id desc limit 1) c on true
  left join lateral (
    select mark.mark_snapshot, mark.system_identifier
    from (select slot, lsn, cursor_until from outbox_wal_position order by id desc limit 1) newest
    join outbox_wal_position mark on mark.slot = newest.slot and mark.mark_lsn <= newest.lsn
    where newest.cursor_until is null
    order by mark.id desc limit 1) wal on s.shards = 1;
comment on view outbox_position is 'The position of the relay in each shard: what it has passed is in Kafka or in outbox_failed.';

create or replace view outbox_event_state as
  select o.id, o.event_id, o.event_type, o.aggregate_type, o.aggregate_id, o.aggregate_version, o.created_at,
         case
           when f.dead_at is not null then 'dead'
           when f.outbox_id is not null and exists (
                  select from outbox_failed earlier
                  where earlier.aggregate_type = f.aggregate_type and earlier.aggregate_id = f.aggregate_id
                    and earlier.outbox_id < f.outbox_id) then 'waiting'
           when f.outbox_id is not null then 'failed'
           when d.original_id is not null then 'dead'
           when exists (select from operator_audit dropped
                        where dropped.action = 'outbox.drop' and (dropped.target->>'outboxId')::bigint = o.id)
             then 'dropped'
           when exists (select from outbox_position p
                        where p.shard = outbox_shard(o.partition_key, p.shards)
                          and (pg_visible_in_snapshot(o.tx_id, p.from_snapshot)
                            or pg_visible_in_snapshot(o.tx_id, p.to_snapshot) and o.id <= p.last_id))
             then 'sent'
           else 'new'
         end as state,
         coalesce(f.retry_count, 0) as attempts, coalesce(f.last_error, d.reason) as last_error,
         coalesce(f.failed_at, d.created_at) as failed_at, f.next_retry_at, coalesce(f.dead_at, d.created_at) as dead_at
  from outbox o
  left join outbox_failed f on f.outbox_id = o.id
  left join outbox_dead_letter d on d.original_id = o.id;
