-- Everbeat never changes when a task ended. If somebody else does, it is no longer known where the oldest lie.
create or replace function forget_spans() returns trigger
language plpgsql set search_path from current
as $$
begin
  update ended_span set oldest = '-infinity' where oldest > '-infinity';
  return null;
end $$;

create or replace trigger ended_moved after update of ended_at on ended for each statement execute function forget_spans();
