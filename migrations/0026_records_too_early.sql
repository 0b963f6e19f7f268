-- A record whose time lies too far in the future is in no window and moves no clock; it is counted here.
alter table projection_checkpoint add column early_records bigint not null default 0;
comment on column projection_checkpoint.early_records is 'Records whose time lay too far in the future to be believed.';
