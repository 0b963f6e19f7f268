-- What operators tell all relays, and what relays tell whoever asks after them.

create table relay_control (
  is_only      boolean primary key default true check (is_only),
  paused_at    timestamptz,
  paused_by    text,
  pause_reason text,
  check ((paused_at is null) = (paused_by is null))
);
comment on table relay_control is
  'One row. While the relay is paused nobody gets or renews a lease to relay, so that no process can miss it.';
insert into relay_control default values;

alter table relay_process
  add column circuit text not null default 'closed' check (circuit in ('closed', 'half-open', 'open')),
  add column circuit_since timestamptz not null default clock_timestamp(),
  add column troubles jsonb not null default '[]';
comment on column relay_process.circuit is 'Its circuit breaker; written when it changes.';
comment on column relay_process.troubles is
  'What it cannot do at the moment, each with lease, since and error; written when it changes.';

-- What the slot has confirmed counts as well: after the last event of a busy time no position is stored any more, and that
-- last page would look as if it still had to be published.
create or replace view outbox_position as
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
    left join pg_replication_slots confirmed on confirmed.slot_name = newest.slot
    join outbox_wal_position mark
      on mark.slot = newest.slot and mark.mark_lsn <= greatest(newest.lsn, confirmed.confirmed_flush_lsn)
    where newest.cursor_until is null
    order by mark.id desc limit 1) wal on s.shards = 1;
