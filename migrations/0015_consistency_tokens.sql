-- A command that is repeated answers as the first one did, token included.
alter table idempotency_key add column consistency_token text;
comment on column idempotency_key.consistency_token is
  'Names the events of the command, for who asks a read model to have them. Null: answered before tokens were given.';
