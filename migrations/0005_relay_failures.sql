-- Rows that could not be published, and behind each the later rows of its aggregate: they must not overtake it.
create table outbox_failed (
  outbox_id          bigint primary key,
  event_id           uuid not null,
  event_type         text not null,
  source             text not null,
  aggregate_type     text not null,
  aggregate_id       text not null,
  aggregate_version  integer not null,
  partition_key      text not null,
  request_id         text not null,
  schema_fingerprint bytea not null,
  payload            bytea not null,
  content_hash       bytea not null,
  traceparent        text,
  created_at         timestamptz not null,
  retry_count        integer not null default 0,
  last_error         text not null,
  failed_at          timestamptz not null default clock_timestamp(),
  next_retry_at      timestamptz not null default clock_timestamp(),
  dead_at            timestamptz
);
comment on column outbox_failed.retry_count is 'Counted when a retry begins, so that a row that ends the process is found out too.';

-- What the retry relay looks for.
create index outbox_failed_due on outbox_failed (next_retry_at) where dead_at is null;
-- Whether an aggregate is held up, and by which row first.
create index outbox_failed_aggregate on outbox_failed (aggregate_type, aggregate_id, outbox_id);

create table outbox_dead_letter (
  id          bigint generated always as identity primary key,
  original_id bigint not null unique,
  envelope    jsonb not null,
  reason      text not null,
  created_at  timestamptz not null default clock_timestamp()
);
comment on table outbox_dead_letter is 'Events the relay has given up on; they stay until an operator sends them again or drops them.';
