-- Products by how often they are sold, liked and seen. A count that does not change leaves its index alone, so a view still
-- updates its row in place as long as nobody asks for the order of views: that one is sorted when it is asked for.
create index product_statistic_sales on product_statistic (sales_count, product_id);
create index product_statistic_likes on product_statistic (like_count, product_id);

-- Both columns in one direction, so that a page begins where the one before ended.
drop index order_view_user;
create index order_view_user on order_view (user_id, created_at, order_id);
create index order_view_created on order_view (created_at, order_id);

-- What batches have changed in the read models that are told live, written in their transactions: one row per batch and model.
create table model_change (
  id         bigint generated always as identity primary key,
  tx_id      xid8 not null default pg_current_xact_id(),
  model      text not null,
  keys       text[] not null,
  changed_at timestamptz not null default clock_timestamp()
);
comment on table model_change is 'Which rows of a read model changed, for live updates; kept for LIVE_RETENTION_MS.';
create index model_change_tx on model_change (tx_id);

create table model_change_horizon (
  only_row     boolean primary key default true check (only_row),
  forgotten_tx xid8 not null
);
insert into model_change_horizon (forgotten_tx) values ('0');
comment on column model_change_horizon.forgotten_tx is
  'The newest transaction among the changes that were dropped: who has not seen it cannot be told what it missed.';
