-- Keys of which a later version is here and an earlier one is not: nothing of them moves until it comes. There are few, so
-- finding them must not mean reading the state of every key.
create index projection_state_waiting on projection_state (projection, version)
  where jsonb_path_exists(value, '$.held[0]');

create view projection_waiting_key as
  select projection, version, state, key, topic, partition, (value ->> 'next')::bigint as missing_version,
         jsonb_array_length(value -> 'held') as records, changed_at
  from projection_state
  where jsonb_path_exists(value, '$.held[0]');
comment on view projection_waiting_key is 'Keys that wait for a version, with how many later ones are held until then.';
