-- Likes never fall below zero: what would take them there is set aside, with that as its cause.
alter table product_statistic
  add constraint like_count_not_negative check (like_count >= 0),
  add constraint sales_count_not_negative check (sales_count >= 0),
  add constraint view_count_not_negative check (view_count >= 0);

create table product_trend (
  window_start timestamptz not null,
  product_id   text not null,
  like_count   bigint not null default 0,
  sales_count  bigint not null default 0,
  view_count   bigint not null default 0,
  updated_at   timestamptz not null default clock_timestamp(),
  -- The windows of a time lie together: what is asked for is the top of one window.
  primary key (window_start, product_id)
) with (fillfactor = 70);
comment on table product_trend is 'Likes, sales and views of each product by window: an hour, beginning every five minutes.';

create table order_view (
  order_id    text primary key,
  user_id     text not null,
  status      text not null check (status in ('created', 'paid', 'canceled')),
  items       jsonb not null,
  total_minor bigint not null,
  currency    text not null,
  payment_id  text,
  version     integer not null,
  created_at  timestamptz not null,
  updated_at  timestamptz not null,
  history     jsonb not null
) with (fillfactor = 80);
comment on table order_view is 'Each order as its buyer sees it, with its history.';
create index order_view_user on order_view (user_id, created_at desc, order_id);

create table stock_level (
  product_id  text primary key,
  name        text not null,
  price_minor bigint not null,
  currency    text not null,
  stock       bigint not null check (stock >= 0),
  version     integer not null,
  updated_at  timestamptz not null
) with (fillfactor = 70);
comment on table stock_level is 'What a product is called, costs, and how much of it is left.';
