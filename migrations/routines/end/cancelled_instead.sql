-- What a task ends with that should have run again, had it not been asked to stop: its attempt's own error is the cause, to the letter.
create or replace function cancelled_instead(p_error text, p_reason text) returns text
language sql immutable
as $$
  select '{"code":"TASK_CANCELLED","message":' || to_json(coalesce(p_reason, 'Cancelled by request.')) || end_of_cancelled(p_error)
$$;
