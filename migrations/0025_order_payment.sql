create table order_payment (
  order_id     text primary key,
  user_id      text not null,
  outcome      text not null check (outcome in ('paid', 'canceled', 'abandoned')),
  total_minor  bigint not null,
  currency     text not null,
  -- Null where the order was settled before anything was known of how it was placed.
  created_at   timestamptz,
  settled_at   timestamptz,
  abandoned_at timestamptz,
  updated_at   timestamptz not null default clock_timestamp()
) with (fillfactor = 80);
comment on table order_payment is 'What became of each order within 30 minutes: paid, canceled or abandoned; and when it was settled after all.';
create index order_payment_abandoned on order_payment (created_at, order_id) where outcome = 'abandoned';
