create table product_momentum (
  product_id   text primary key,
  window_start timestamptz not null,
  window_end   timestamptz not null,
  -- When the window takes no more events: the row goes away then.
  closes_at    timestamptz not null,
  view_count   integer not null check (view_count >= 0),
  like_count   integer not null check (like_count >= 0),
  updated_at   timestamptz not null default clock_timestamp()
) with (fillfactor = 70);
comment on table product_momentum is 'How often products were seen and liked in the ten minutes up to their latest event; only products of which there was one just now.';
