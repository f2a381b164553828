-- Writes what a sweep has found out about these hearts, whose rows it has locked: that the session is free since now or no longer, or, where the
-- clock was set back, that what is yet to come counts as of now. Where that fails, it is tried with each half of them, so that only the hearts at fault are
-- left out: a trigger of a user's may refuse one row. They are returned. What the server itself is at fault for is raised.
-- A trigger may wait for a lock. It is not waited for long, and after p_until nothing more is tried.
create or replace function mark_hearts(p_hearts uuid[], p_is_set_back boolean, p_until timestamptz) returns refused_heart[]
language plpgsql set search_path from current set lock_timeout = '50ms'
as $$
declare
  v_middle  integer := cardinality(p_hearts) / 2;
  v_code    text;
  v_message text;
begin
  if cardinality(p_hearts) = 0 then
    return '{}';
  end if;
  if clock_timestamp() > p_until then
    return array(select row(h, '55P03', 'There was no time left to write it.')::refused_heart from unnest(p_hearts) h);
  end if;
  begin
    if p_is_set_back then
      update heart
      set beat_at = least(beat_at, clock_timestamp()),
          session_free_since = case when session_free_since < 'infinity' then least(session_free_since, clock_timestamp()) else 'infinity' end
      where replica_id = any (p_hearts);
    else
      update heart set session_free_since = case when session_free_since = 'infinity' then clock_timestamp() else 'infinity' end
      where replica_id = any (p_hearts);
    end if;
    return '{}';
  exception when others then
    if sqlstate ~ '^(08|25|40|53|57|58)' then
      raise;
    end if;
    v_code := sqlstate;
    v_message := left(sqlerrm, 200);
  end;
  if v_middle = 0 then
    return array[row(p_hearts[1], v_code, v_message)::refused_heart];
  end if;
  return mark_hearts(p_hearts[: v_middle], p_is_set_back, p_until) || mark_hearts(p_hearts[v_middle + 1 :], p_is_set_back, p_until);
end $$;
