-- A task is the partitions of one number, over all topics: one process at a time has it. Its commits are counted, so that two
-- processes that believe in it fence each other even where no checkpoint moves, as when windows close by the wall clock.

create table projection_task (
  projection  text not null,
  version     integer not null,
  partition   integer not null,
  commits     bigint not null check (commits > 0),
  stream_time timestamptz not null,
  primary key (projection, version, partition)
) with (fillfactor = 50);
comment on table projection_task is
  'What was committed for the partitions of one number, over all topics; changed by whoever expects the right number of commits.';
comment on column projection_task.stream_time is
  'The latest event time seen in any of them: what windows that are handed on go by.';
comment on column projection_checkpoint.stream_time is
  'The latest event time seen in this partition of this topic: what counts by window go by.';

-- A window may be opened by one topic and closed by another.
create index projection_state_due_in_task on projection_state (projection, version, partition, due_at)
  where due_at is not null;
drop index projection_state_due;
