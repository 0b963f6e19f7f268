create table scheduler_lock (
  name         text primary key,
  locked_by    text not null,
  locked_until timestamptz not null,
  token        bigint not null default 1
);
comment on table scheduler_lock is 'One runner per job. The token grows with every new holder and fences the ones before it.';

create table outbox_cursor (
  id                bigint generated always as identity primary key,
  from_snapshot     pg_snapshot not null,
  to_snapshot       pg_snapshot not null,
  last_id           bigint not null,
  system_identifier bigint not null,
  lease_token       bigint not null,
  created_at        timestamptz not null default clock_timestamp()
);
comment on table outbox_cursor is
  'Append-only, the newest row counts: rows visible in from_snapshot are published, of those visible only in to_snapshot the ones up to last_id.';
