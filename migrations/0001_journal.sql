-- The journal is the outbox: one append-only table that aggregates are loaded from and the relay publishes from.

create table avro_schema (
  fingerprint bytea primary key check (octet_length(fingerprint) = 32),
  name        text not null,
  schema      json not null,
  stored_at   timestamptz not null default now()
);
comment on table avro_schema is 'Every schema an outbox payload was ever written with, so that each row stays readable for ever.';

-- schema_fingerprint has no foreign key: the check would lock the same avro_schema row in every append.
-- Writers store their schemas before they take the first command.
create table outbox (
  id                 bigint generated always as identity (cache 1) primary key,
  tx_id              xid8 not null default pg_current_xact_id(),
  event_id           uuid not null,
  event_type         text not null,
  source             text not null,
  aggregate_type     text not null,
  aggregate_id       text not null,
  aggregate_version  integer not null check (aggregate_version > 0),
  partition_key      text not null,
  request_id         text not null,
  schema_fingerprint bytea not null,
  payload            bytea not null,
  content_hash       bytea not null check (octet_length(content_hash) = 32),
  traceparent        text,
  occurred_at        timestamptz not null,
  created_at         timestamptz not null default clock_timestamp(),
  unique (aggregate_type, aggregate_id, aggregate_version)
);
comment on table outbox is 'The journal: a row is an event, in one transaction with the decision. Rows are never updated.';

-- Finds where a delta between two snapshots begins and ends without walking the table.
create index outbox_tx_id on outbox (tx_id, id);

create function refuse_to_change_the_journal() returns trigger language plpgsql as $$
begin
  raise exception 'the outbox is append-only: % refused', tg_op using errcode = 'restrict_violation';
end
$$;
create trigger outbox_is_append_only before update or delete or truncate on outbox
  for each statement execute function refuse_to_change_the_journal();
