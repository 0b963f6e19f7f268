-- What operators have decided about dead letters. The letters themselves lie in Kafka, which forgets nothing and marks
-- nothing: a letter is open until there is a row here that tells otherwise.
create table dead_letter_decision (
  dlq_topic          text not null,
  dlq_partition      integer not null,
  dlq_offset         bigint not null,
  decision           text not null check (decision in ('replayed', 'dropped')),
  -- Null for letters that do not say whose they are, or where their record came from.
  projection         text,
  projection_version integer not null,
  original_topic     text,
  original_partition integer,
  original_offset    bigint,
  key                text,
  -- The how-manieth replay of this record it is, or would have been.
  attempt            integer not null check (attempt > 0),
  replay_id          uuid,
  who                text not null,
  decided_at         timestamptz not null default clock_timestamp(),
  -- When Kafka had the replayed record. Null in between, and after a crash in between: then it may be there or not.
  done_at            timestamptz,
  primary key (dlq_topic, dlq_partition, dlq_offset),
  check (decision = 'dropped' or replay_id is not null)
);
comment on table dead_letter_decision is
  'Replayed and dropped dead letters. The rows of one record and projection, by attempt, are the history of its replays.';

-- A record that fails again has a letter of its own. Two letters about the same attempt are one: the process ended between
-- the letter and its checkpoint.
create unique index dead_letter_decision_of_record on dead_letter_decision
  (projection, original_topic, original_partition, original_offset, projection_version, attempt);
