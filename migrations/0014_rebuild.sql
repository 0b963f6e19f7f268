-- A build is one filling of a projection's tables, with checkpoints, handled ids, facts, states and parked keys under its own
-- version. One is live. A rebuild fills another beside it, in a schema of its own, and then changes places with it.
create table projection_build (
  projection         text not null,
  version            integer not null,
  -- The version of the definition that fills it: only a program with that one may go on with it.
  definition_version integer not null,
  status             text not null check (status in ('building', 'live', 'retired', 'returning', 'dropping')),
  source             text check (source in ('journal', 'kafka')),
  phase              text check (phase in ('replay', 'catch-up')),
  -- What the program was that began it: another one begins anew.
  program            text,
  -- The part of the journal that is replayed: what is visible in the second snapshot and not in the first.
  from_snapshot      pg_snapshot,
  to_snapshot        pg_snapshot,
  -- Where Kafka ended before the first snapshot was taken: from there on the topics are read.
  kafka_start        jsonb,
  -- Records that could not be applied.
  set_aside          bigint not null default 0,
  started_at         timestamptz not null default clock_timestamp(),
  live_at            timestamptz,
  retired_at         timestamptz,
  primary key (projection, version),
  check (status <> 'building' or (source is not null and phase is not null and program is not null))
);
comment on table projection_build is
  'Every commit of a projection locks its row here (key share), and whoever holds it still or swaps it locks it for update.';
create unique index projection_build_live on projection_build (projection) where status = 'live';
create unique index projection_build_building on projection_build (projection) where status in ('building', 'returning');

insert into projection_build (projection, version, definition_version, status, live_at)
select projection, max(version), max(version), 'live', clock_timestamp() from projection_checkpoint group by projection;

create view projection_live as
  select projection, version, definition_version from projection_build where status = 'live';
comment on view projection_live is 'Under which version checkpoints and the rest of what is live are kept.';
