-- A key's partition follows from its hash and the number of partitions. What a build keeps by partition is right for one number
-- only: a topic that has another one must not be read before it was moved.
create table projection_topic (
  projection text not null,
  version    integer not null,
  topic      text not null,
  partitions integer not null check (partitions > 0),
  primary key (projection, version, topic)
);
comment on table projection_topic is 'How many partitions a topic has for what a build keeps; stored when it is first read.';

create table topic_growth (
  topic             text not null,
  partitions_before integer not null check (partitions_before > 0),
  partitions        integer not null check (partitions > partitions_before),
  events_until      timestamptz not null,
  grown_at          timestamptz not null default clock_timestamp(),
  primary key (topic, partitions)
);
comment on table topic_growth is
  'Partitions that were added. An event from before may come again in another partition than it was handled in.';
comment on column topic_growth.events_until is 'No event that was handled before the change happened later than this.';
