-- How many more could start now under `p_limit` per `p_per_ms` (`room`), and from when on they would count as spent (`spent` and `rest`).
-- p_rate is the row of `rate`; null where there is none. It is counted in parts of a microsecond (see rate), because most limits do not
-- divide their time evenly, and rounding would lose something with every start.
create or replace function budget_left(p_rate rate, p_limit integer, p_per_ms bigint, out spent timestamptz, out rest numeric, out room bigint)
language sql stable set search_path from current
as $$
  select s.spent, s.rest,
    case when is_countable(p_limit, p_per_ms)
      then greatest(0, floor((extract(epoch from now() + p_per_ms * interval '1 millisecond' - s.spent) * 1000000 * p_limit - s.rest) / (p_per_ms * 1000.0)))::bigint
      else refuse_claim(format('a rate of %s in %s ms cannot be counted', p_limit, p_per_ms))::bigint end
  from (
    select s.spent, case when s.spent = p_rate.spent_until then least(p_rate.spent_rest, p_limit - 1) else 0 end as rest
    from (select case when is_far_ahead(p_rate.spent_until, p_per_ms) then now() + p_per_ms * interval '1 millisecond'
                      else greatest(p_rate.spent_until, now()) end as spent) s
  ) s
$$;
