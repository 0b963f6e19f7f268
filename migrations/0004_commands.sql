-- The first answer to every request that changed something, so that the same request again gets it again.
create table idempotency_key (
  key_hash    bytea primary key check (octet_length(key_hash) = 32),
  fingerprint bytea not null,
  -- json and not jsonb: the answer comes back letter for letter, in the order it was given.
  answer      json not null,
  created_at  timestamptz not null default clock_timestamp()
);
comment on column idempotency_key.key_hash is 'SHA-256 of the caller, the route and the key, so that callers cannot meet in one key.';
create index idempotency_key_created_at on idempotency_key (created_at);

-- A shortcut into long streams; everything here can be dropped and comes again.
create table aggregate_snapshot (
  aggregate_type text not null,
  aggregate_id   text not null,
  version        integer not null,
  fold_version   integer not null,
  state          jsonb not null,
  taken_at       timestamptz not null default clock_timestamp(),
  primary key (aggregate_type, aggregate_id)
);
