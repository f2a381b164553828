-- An operator's word that those of this source are dead indeed. An operator waits for it, so somebody who keeps the row locked is not waited for long.
create or replace function confirm_hold(p_source text) returns setof boolean
language sql set search_path from current set lock_timeout = '500ms'
as $$ update hold h set confirmed_at = clock_timestamp() where h.source = p_source and hold_lasts(h) returning true $$;
