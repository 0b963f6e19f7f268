-- An offset means something in one log only. A topic that is deleted and made anew has another id; a log that has lost its end
-- (a broker without its unflushed tail, an unclean election) goes on under a later leader epoch.
alter table projection_checkpoint
  add column topic_id uuid,
  add column leader_epoch integer;
comment on column projection_checkpoint.topic_id is
  'The topic that next_offset was read in, as its brokers know it; null where it is not known.';
comment on column projection_checkpoint.leader_epoch is
  'The leader epoch of the record before next_offset; null where it is not known.';

create table projection_log_break (
  id            bigint generated always as identity primary key,
  projection    text not null,
  version       integer not null,
  topic         text not null,
  partition     integer not null,
  kind          text not null check (kind in ('recreated', 'truncated')),
  offset_before bigint not null,
  next_offset   bigint not null,
  -- The latest event time that was seen in the partition before.
  stream_time   timestamptz not null,
  at            timestamptz not null default clock_timestamp()
);
comment on table projection_log_break is
  'Partitions that were read again, because what was read before is not in their logs any more: Kafka has lost events there.';
create index projection_log_break_at on projection_log_break (at);
