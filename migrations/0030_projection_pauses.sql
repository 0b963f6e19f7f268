-- Projections that an operator holds still until further notice, in every process and over restarts.
create table projection_pause (
  projection text primary key,
  paused_at  timestamptz not null default clock_timestamp(),
  paused_by  text not null,
  reason     text
);
comment on table projection_pause is
  'While a projection is here, no commit to its live build succeeds, so that no process can miss it. Builds that a rebuild fills are not held.';
