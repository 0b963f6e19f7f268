-- Events that Kafka has and the journal has not: they were published from a server whose last transactions were lost
-- afterwards, in an asynchronous failover or a restore.

create table journal_timeline (
  id                 bigint generated always as identity primary key,
  system_identifier  bigint not null,
  timeline           integer not null,
  -- A dump that is restored into the same server makes the table anew.
  outbox_oid         oid not null,
  noticed_at         timestamptz not null default clock_timestamp(),
  seen_at            timestamptz not null default clock_timestamp(),
  search_from        timestamptz,
  searches_done      integer not null default 0,
  next_search_at     timestamptz,
  records_unreadable bigint not null default 0,
  unique (system_identifier, timeline, outbox_oid)
);
comment on table journal_timeline is
  'Every server and timeline that the journal was found on. The first row is its beginning; with each later one it may have lost its last events.';
comment on column journal_timeline.seen_at is
  'Written every few seconds. Whatever was committed before a row that is still there is still there as well.';
comment on column journal_timeline.search_from is
  'Records from then on may be of events that are lost; null for the beginning.';
comment on column journal_timeline.next_search_at is 'When the topics are searched again; null when that is done.';
insert into journal_timeline (system_identifier, timeline, outbox_oid)
  select system_identifier, server_timeline(), 'outbox'::regclass::oid from pg_control_system();

create table ghost_event (
  event_id          uuid primary key,
  event_type        text not null,
  aggregate_type    text not null,
  aggregate_id      text not null,
  aggregate_version integer not null,
  topic             text not null,
  partition         integer not null,
  record_offset     bigint not null,
  recorded_at       timestamptz not null,
  found_at          timestamptz not null default clock_timestamp(),
  dismissed_at      timestamptz
);
comment on table ghost_event is
  'Events in Kafka that the journal does not have, each with the place of its first record. What an operator has dismissed is mended.';
create index ghost_event_open on ghost_event (recorded_at) where dismissed_at is null;
