create table projection_checkpoint (
  projection  text not null,
  topic       text not null,
  partition   integer not null,
  next_offset bigint not null,
  moved_at    timestamptz not null default clock_timestamp(),
  primary key (projection, topic, partition)
);
comment on table projection_checkpoint is
  'The truth about what a projection has applied; moved in the transaction that applies it. Kafka offsets only follow.';

create table event_handled (
  aggregate_type text not null,
  aggregate_id   text not null,
  action         text not null,
  handled_at     timestamptz not null default clock_timestamp(),
  primary key (aggregate_type, aggregate_id, action)
);
comment on table event_handled is 'What has taken effect once and must not take effect again.';

-- Room on the page and no index on the counters keep counting an update in place.
create table product_statistic (
  product_id  text primary key,
  like_count  bigint not null default 0,
  sales_count bigint not null default 0,
  view_count  bigint not null default 0,
  updated_at  timestamptz not null default clock_timestamp()
) with (fillfactor = 70);
