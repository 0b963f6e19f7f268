-- Another build of a read model has taken its place: who follows its changes has pictures of the old one.
alter table model_change add column is_replaced boolean not null default false;
comment on column model_change.is_replaced is
  'All rows of the model may be different, because another build of it is live; no keys are told then.';

-- Records that came after their window had closed are handled and not in the model: a query that waits for one is told so.
alter table projection_handled add column late_ids bytea;
alter table projection_handled alter column late_ids set storage external;
comment on column projection_handled.late_ids is
  'Ids of events that came too late for a window, side by side, 16 bytes each; null in nearly all rows.';
