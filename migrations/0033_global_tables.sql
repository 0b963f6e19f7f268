-- A state that every process has a copy of: the copies ask what was changed since they looked, by the transaction that did it.
-- A value that was taken away stays without one for a while, so that they are told of it.
alter table projection_state
  add column changed_in xid8,
  alter column value drop not null;
comment on column projection_state.changed_in is 'The transaction that changed it last; only for states that processes have copies of.';
comment on column projection_state.value is 'Null where it was taken away and processes with copies may not know yet.';
create index projection_state_changed on projection_state (projection, version, state, changed_in)
  where changed_in is not null;
create index projection_state_emptied on projection_state (changed_at) where value is null;

-- Records that wait for a row are held, too, and wait for no version.
create or replace view projection_waiting_key as
  select projection, version, state, key, topic, partition, (value ->> 'next')::bigint as missing_version,
         jsonb_array_length(value -> 'held') as records, changed_at
  from projection_state
  where jsonb_path_exists(value, '$.held[0]') and value ? 'next' and due_at is null;

create table order_receipt (
  order_id    text primary key,
  user_id     text not null,
  payment_id  text not null,
  total_minor bigint not null,
  currency    text not null,
  line_count  integer not null,
  lines       jsonb not null,
  paid_at     timestamptz not null,
  updated_at  timestamptz not null default clock_timestamp()
) with (fillfactor = 90);
comment on table order_receipt is 'What was paid for, with the names of the products; null where nobody had heard of the product.';
