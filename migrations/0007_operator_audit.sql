-- Who put what back, dropped what: written in one transaction with the change itself.
create table operator_audit (
  id     bigint generated always as identity primary key,
  at     timestamptz not null default clock_timestamp(),
  who    text not null,
  action text not null,
  target jsonb not null
);
comment on table operator_audit is 'Every change by an operator. One row per operation, except drops: one per event, so that its state can tell.';

-- What operators did to one event.
create index operator_audit_target on operator_audit using gin (target jsonb_path_ops);
-- An event that an operator dropped must not look as if it had been sent.
create index operator_audit_dropped on operator_audit (((target->>'outboxId')::bigint)) where action = 'outbox.drop';

-- Operators look for events by their id. Event ids ascend with time as rows do, so block ranges find them, and writers
-- pay next to nothing; a tree would be written to by every command.
create index outbox_event_id on outbox using brin (event_id) with (autosummarize = on);

create view outbox_held_event as
  select f.outbox_id as id, f.event_id, f.event_type, f.aggregate_type, f.aggregate_id, f.aggregate_version,
         f.created_at,
         case
           when f.dead_at is not null then 'dead'
           when exists (select from outbox_failed earlier
                        where earlier.aggregate_type = f.aggregate_type and earlier.aggregate_id = f.aggregate_id
                          and earlier.outbox_id < f.outbox_id) then 'waiting'
           else 'failed'
         end as state,
         f.retry_count as attempts, f.last_error, f.failed_at, f.next_retry_at, f.dead_at
  from outbox_failed f
  union all
  select d.original_id, (d.envelope->>'eventId')::uuid, d.envelope->>'eventType', d.envelope->>'aggregateType',
         d.envelope->>'aggregateId', (d.envelope->>'aggregateVersion')::integer,
         (d.envelope->>'createdAt')::timestamptz, 'dead', 0, d.reason, d.created_at, null, d.created_at
  from outbox_dead_letter d
  where not exists (select from outbox_failed f where f.outbox_id = d.original_id);
comment on view outbox_held_event is 'What did not get through: failed, waiting behind a failed one, or dead.';

create view outbox_event_state as
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
           when pg_visible_in_snapshot(o.tx_id, c.from_snapshot)
             or (pg_visible_in_snapshot(o.tx_id, c.to_snapshot) and o.id <= c.last_id) then 'sent'
           else 'new'
         end as state,
         coalesce(f.retry_count, 0) as attempts, coalesce(f.last_error, d.reason) as last_error,
         coalesce(f.failed_at, d.created_at) as failed_at, f.next_retry_at, coalesce(f.dead_at, d.created_at) as dead_at
  from outbox o
  left join outbox_failed f on f.outbox_id = o.id
  left join outbox_dead_letter d on d.original_id = o.id
  left join (select from_snapshot, to_snapshot, last_id from outbox_cursor order by id desc limit 1) c on true;
comment on view outbox_event_state is
  'The life of an event, derived: no row carries a status. Cheap for single ids; ask it with a filter.';
