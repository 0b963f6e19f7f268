-- What projections know: how far they have come, what they have handled, what they keep, what they have set aside.
-- Another version of a projection's definition shares nothing with the one before.

alter table projection_checkpoint
  add column version integer not null default 1,
  add column stream_time timestamptz not null default '-infinity',
  add column late_records bigint not null default 0,
  drop constraint projection_checkpoint_pkey,
  add primary key (projection, version, topic, partition);
alter table projection_checkpoint alter column version drop default;
comment on column projection_checkpoint.stream_time is 'The latest event time seen: what windows go by.';
comment on column projection_checkpoint.late_records is 'Records that came after their window had closed.';

-- A small number for what would otherwise be said again in every row of projection_handled.
create table projection_scope (
  id         integer generated always as identity primary key,
  projection text not null,
  version    integer not null,
  topic      text not null,
  partition  integer not null,
  unique (projection, version, topic, partition)
);
comment on column projection_scope.partition is
  'Minus one: ids whose partition is not known, because they were handled before it was kept. They hold for all of them.';

-- One row per batch, partition and stretch of event time instead of one per event. Whatever comes twice has the same time,
-- so it is looked for in one stretch only, and days whose time is over are dropped as tables.
create table projection_handled (
  bucket_start_ms bigint not null,
  handled_at      timestamptz not null default now(),
  scope           integer not null,
  ids             bytea not null check (octet_length(ids) % 16 = 0)
) partition by range (bucket_start_ms);
comment on column projection_handled.ids is 'Event ids side by side, 16 bytes each.';
-- Ids are as good as random: trying to compress them only takes time.
alter table projection_handled alter column ids set storage external;
create index projection_handled_bucket on projection_handled (bucket_start_ms, scope);
-- For event times that have no table of their own: long ago, far ahead, or a day that nobody has opened yet.
create table projection_handled_default partition of projection_handled default;
create index projection_handled_default_handled_at on projection_handled_default using brin (handled_at)
  with (pages_per_range = 32, autosummarize = on);

create table projection_fact_kind (
  id             integer generated always as identity primary key,
  projection     text not null,
  version        integer not null,
  aggregate_type text not null,
  action         text not null,
  unique (projection, version, aggregate_type, action)
);

create table projection_fact (
  kind         integer not null,
  aggregate_id text collate "C" not null,
  handled_at   timestamptz not null default now(),
  primary key (kind, aggregate_id)
);
comment on table projection_fact is 'Business facts that count once, however many events tell of them.';
create index projection_fact_handled_at on projection_fact using brin (handled_at)
  with (pages_per_range = 32, autosummarize = on);

create table projection_state (
  projection text not null,
  version    integer not null,
  state      text not null,
  key        text not null,
  topic      text not null,
  partition  integer not null,
  value      jsonb not null,
  due_at     timestamptz,
  changed_at timestamptz not null default now(),
  primary key (projection, version, state, key)
) with (fillfactor = 80);
comment on table projection_state is 'What stateful steps know, one value per key, where they have no table of their own.';
create index projection_state_due on projection_state (projection, version, topic, partition, due_at)
  where due_at is not null;

create table projection_parked_key (
  projection    text not null,
  version       integer not null,
  topic         text not null,
  partition     integer not null,
  key           text not null,
  since_offset  bigint not null,
  records       bigint not null check (records > 0),
  reason        text not null,
  broken_replay text,
  parked_at     timestamptz not null default clock_timestamp(),
  primary key (projection, version, topic, partition, key)
);
comment on table projection_parked_key is
  'Keys whose records go to the dead letters, because an earlier one is there and order matters; until they are replayed.';
comment on column projection_parked_key.records is 'Dead letters of this key that are still to be replayed or dropped.';

-- What an event that passed a projection did, by name; written at start from the projections' definitions.
create table projection_action (
  projection text not null,
  version    integer not null,
  event_type text not null,
  action     text not null,
  primary key (projection, version, event_type, action)
);

-- What was counted stays counted: ids and times of the old keys are in the journal, their partitions are nowhere.
with legacy as (
  insert into projection_scope (projection, version, topic, partition)
  select 'product-statistic', 1, '', -1 where exists (select from event_handled)
  returning id
)
insert into projection_handled (bucket_start_ms, handled_at, scope, ids)
select floor(extract(epoch from o.occurred_at) * 1000 / 10000)::bigint * 10000, max(h.handled_at), legacy.id,
       string_agg(uuid_send(o.event_id), ''::bytea)
from legacy, event_handled h join outbox o using (aggregate_type, aggregate_id)
group by 1, legacy.id;
drop table event_handled;

create view event_handled as
  select kind.projection, kind.version, kind.aggregate_type, fact.aggregate_id, kind.action, fact.handled_at,
         null::uuid as event_id
  from projection_fact fact
  join projection_fact_kind kind on kind.id = fact.kind
  union all
  select scope.projection, scope.version, coalesce(o.aggregate_type, 'Event'), coalesce(o.aggregate_id, event.id::text),
         coalesce(done.action, 'HANDLED'), handled.handled_at, event.id
  from projection_handled handled
  join projection_scope scope on scope.id = handled.scope
  cross join lateral (
    select encode(substring(handled.ids from n * 16 + 1 for 16), 'hex')::uuid as id
    from generate_series(0, octet_length(handled.ids) / 16 - 1) n
  ) event
  left join outbox o on o.event_id = event.id
  left join projection_action done on done.projection = scope.projection and done.version = scope.version
                                  and done.event_type = o.event_type;
comment on view event_handled is
  'What has taken effect once and must not again, by name. Events that the journal no longer has are shown by their ids. For looking: it unpacks every id it walks over.';
