-- A relay that is cut off from the brokers gives its leases to one that is not. For that each tells how it fares with them.
alter table relay_process
  add column brokers_failing_since timestamptz,
  add column brokers_reached integer,
  add column sits_out boolean not null default false;
comment on column relay_process.brokers_failing_since is
  'Since when none of its sends has succeeded while it holds a lease; null when one has, or when it holds none.';
comment on column relay_process.brokers_reached is
  'How many brokers answer it. Asked for only while a relay fails to send; null otherwise.';
comment on column relay_process.sits_out is
  'It has given its leases back and asks for none, because another relay reaches more brokers.';
