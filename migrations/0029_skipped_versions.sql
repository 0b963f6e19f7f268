-- What an operator has said will never come. The state of the key knows it as well; this is for builds that begin later, which
-- would wait for the same version again.
create table projection_skipped_version (
  projection      text not null,
  state           text not null,
  key             text not null,
  skipped_version bigint not null,
  topic           text not null,
  partition       integer not null,
  who             text not null,
  decided_at      timestamptz not null default clock_timestamp(),
  primary key (projection, state, key, skipped_version)
);
comment on table projection_skipped_version is
  'Versions that steps which hand records on in order do not wait for, as operators have decided.';

-- A key whose next version is here, or was skipped, waits for nothing any more: the projection is about to hand it on.
create or replace view projection_waiting_key as
  select projection, version, state, key, topic, partition, (value ->> 'next')::bigint as missing_version,
         jsonb_array_length(value -> 'held') as records, changed_at
  from projection_state
  where jsonb_path_exists(value, '$.held[0]') and due_at is null;
