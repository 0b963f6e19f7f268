-- What operators dropped stays dropped, also when the relay comes to it a second time: after a resync, a change of the
-- number of shards, or on its way back from the write-ahead log.
create table outbox_dropped (
  outbox_id  bigint primary key,
  dropped_at timestamptz not null default clock_timestamp()
);
comment on table outbox_dropped is
  'Events that an operator has given up for good: the relay passes over them. Who did it is in operator_audit.';
insert into outbox_dropped (outbox_id, dropped_at)
  select (target->>'outboxId')::bigint, min(at) from operator_audit where action = 'outbox.drop' group by 1;
drop index operator_audit_dropped;

-- An event may be on its way to Kafka while an operator drops it; the ones behind it would then overtake it.
alter table outbox_failed add column claim_token bigint;
comment on column outbox_failed.claim_token is
  'The token of the lease under which a try is under way; null between two tries. Void once the lease has run out or gone to another.';

-- Rows that came with a dump are passed by id.
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
           when exists (select from outbox_dropped dropped where dropped.outbox_id = o.id) then 'dropped'
           when exists (select from outbox_position p, journal_origin origin
                        where p.shard = outbox_shard(o.partition_key, p.shards)
                          and case when o.id <= origin.restored_until_id
                                   then o.id <= coalesce(p.restored_last_id, origin.restored_until_id)
                                   else pg_visible_in_snapshot(o.tx_id, p.from_snapshot)
                                     or pg_visible_in_snapshot(o.tx_id, p.to_snapshot) and o.id <= p.last_id end)
             then 'sent'
           else 'new'
         end as state,
         coalesce(f.retry_count, 0) as attempts, coalesce(f.last_error, d.reason) as last_error,
         coalesce(f.failed_at, d.created_at) as failed_at, f.next_retry_at, coalesce(f.dead_at, d.created_at) as dead_at
  from outbox o
  left join outbox_failed f on f.outbox_id = o.id
  left join outbox_dead_letter d on d.original_id = o.id;
