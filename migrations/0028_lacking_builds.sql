-- A live build may lack what the topics had lost before anybody read it: it is filled from the journal, and nobody runs it before.
alter table projection_build
  add column awaits_fill boolean not null default false,
  add column checkpoint_resets integer not null default 0;
comment on column projection_build.awaits_fill is
  'A first build that was opened when the topics had lost their beginning: nothing is in it, and it makes way for one that is filled from the journal.';
comment on column projection_build.checkpoint_resets is
  'How often somebody other than a batch has moved checkpoints: whoever runs the build begins anew at them.';
