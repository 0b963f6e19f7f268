-- Windows close by whichever clock comes first; timers go by one of them alone. Each has its index, so that what waits for the
-- other clock is not looked at again and again.
alter table projection_state
  add column stream_due_at timestamptz,
  add column clock_due_at timestamptz;
comment on column projection_state.due_at is 'When it wants to be looked at, by the time of the stream or by the wall clock.';
comment on column projection_state.stream_due_at is 'The same, by the time of the stream alone.';
comment on column projection_state.clock_due_at is 'The same, by the wall clock alone.';
create index projection_state_due_by_stream on projection_state (projection, version, partition, stream_due_at)
  where stream_due_at is not null;
create index projection_state_due_by_clock on projection_state (projection, version, partition, clock_due_at)
  where clock_due_at is not null;

create table stock_outage (
  product_id text primary key,
  name       text not null,
  out_since  timestamptz not null,
  overdue_at timestamptz,
  updated_at timestamptz not null default clock_timestamp()
) with (fillfactor = 80);
comment on table stock_outage is 'Products that are out of stock, since when, and since when for too long.';
create index stock_outage_since on stock_outage (out_since, product_id);
