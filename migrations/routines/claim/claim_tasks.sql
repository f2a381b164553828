create or replace function claim_tasks(
  p_replica       uuid,
  p_names         text[],        -- the tasks this replica knows; others are left for one that does
  p_queues        text[],        -- the queues it works on; null: all of them
  p_room          integer[],     -- how many more it takes from each of p_queues; null elements: any number
  p_run           integer,       -- how many start at once, and have a slot
  p_prefetch      integer,       -- how many more are claimed ahead
  p_cursor_lane   uuid[],        -- where the last claim ended, lane by lane; the others are searched from p_seen on
  p_cursor_run_at timestamptz[],
  p_cursor_task   uuid[],
  p_arm           boolean default false, -- ask to be told of new tasks in these queues, from before the search on
  p_ended         json default null, -- what end_claims said, which as an argument is called before anything is claimed
  p_reserve       integer default 0, -- how many more start at once, and may wait for a slot: where nothing is claimed ahead
  p_seen          timestamptz default null, -- by an earlier search, everything up to then: where lanes without a cursor are searched from
  p_last_lane     uuid default null -- from which the last claim took: this one begins with those behind it; null: anywhere
) returns setof claim_row
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_rounds  constant integer := 8;
  -- How often it looks further in a lane where it could decide on nothing, besides.
  c_passes  constant integer := 64;
  -- In a lane with a key that somebody else has locked, how many rows it looks at: all of them may wait for that key.
  c_walk    constant integer := 2000;
  c_last_id constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  -- A task sorts by when its transaction began, and can be seen when that has ended. What takes longer is found by overlooked().
  c_lag     constant interval := '2 seconds';
  -- Among equals they take turns, so that a flooded queue does not starve the others.
  c_behind  constant uuid := coalesce(p_last_lane, gen_random_uuid());
  v_priority smallint;
  v_lane    record;
  v_queue   queue;
  v_until   timestamptz; -- the run_at of the last that is claimed
  v_rows    tid[];
  v_picked  tid[];
  v_part    tid[];
  v_starts  boolean;
  v_found   integer;
  v_special boolean;
  v_want    integer;
  v_slot    integer;
  v_claimed integer := 0;
  v_total   integer := p_run + p_reserve + p_prefetch;
  v_rounds  integer;
  v_passes  integer;
  v_busy    bigint[]; -- locks that somebody else holds, and that rows of this lane need
  v_met_busy bigint[];
  v_end_run_at timestamptz; -- with v_end_task: behind this row of the lane it does not look
  v_end_task   uuid;
  v_is_bounded   boolean; -- there are others behind it
  v_is_cut_short boolean;
  v_is_stuck boolean;  -- nothing of what was picked last could be decided on
  v_is_held  boolean := false;
  v_held_queue text;
  v_held_from timestamptz; -- the run_at of the first that was passed by
  v_more    boolean := false;
  v_is_alive     boolean;
  v_has_seen_all boolean := true;
  v_is_exhausted boolean; -- nothing else in the lane could be taken
  v_is_limited   boolean;
  v_met     text[] := '{}'; -- queues with something that must not wait for a slot
  v_has_locked boolean := false;
  v_now     timestamptz;
  v_let_go    tid[]; -- by the ends that were asked for in the same statement
  v_let_go_in text[] := '{}';
  v_are_free  boolean;
  v_is_trial  boolean; -- see bad_rows
  v_follows   boolean;
  v_followed  integer := 0;
begin
  -- Asked here as well, since the call of a function would cost more than the question.
  if current_setting('transaction_isolation') <> 'read committed' then
    perform require_read_committed();
  end if;
  -- Ids are drawn only in an epoch that is known: its beginning has put them above all that were ever drawn.
  if known_epoch() is null then
    perform begin_epoch();
  end if;
  if p_ended is not null then
    v_let_go := array(select json_array_elements_text(p_ended -> 'unparked'))::tid[];
    v_are_free := coalesce((p_ended ->> 'areFree')::boolean, false);
    v_is_trial := (p_ended ->> 'isTrial')::boolean;
    v_let_go_in := array(select distinct queue from ready where ctid = any (v_let_go));
    return next row(null, null, 'ended', null, null, null, null, null, p_ended, null, null, null, null, null, null)::claim_row;
  end if;
  if p_arm and not arm_bells(coalesce(p_queues, '{*}')) then
    return next row(null, null, 'unarmed', null, null, null, null, null, null, null, null, null, null, null, null)::claim_row;
  end if;
  -- Not now(), which is when this transaction began: it may have waited for the bells since, and what was put in meanwhile has
  -- not rung them. It must count as due.
  v_now := clock_timestamp();

  <<by_priority>>
  loop
    -- A replica that was declared dead gets nothing more, whatever it believes of itself, nor once it is forgotten.
    select (select l.priority from lane l where l.priority > coalesce(v_priority::integer, -100000) order by l.priority limit 1),
           exists (select from replica r where r.id = p_replica and r.status in ('online', 'draining'))
    into v_priority, v_is_alive;
    exit when v_priority is null or not v_is_alive;
    for v_lane in
      select l.id, l.queue, l.priority, q.concurrency, q.rate_limit, q.rate_per_ms, c.after_run_at, c.after_task
      from (
        -- In the order of the index and as far as needed: there may be ten thousand.
        (select n.id, n.queue, n.priority from lane n where p_queues is null and n.priority = v_priority and n.id > c_behind order by n.id)
        union all
        (select n.id, n.queue, n.priority from lane n where p_queues is null and n.priority = v_priority and n.id <= c_behind order by n.id)
        union all
        (select n.id, n.queue, n.priority from lane n where n.queue = any (p_queues) and n.priority = v_priority order by n.id <= c_behind, n.id)
      ) l
      left join queue q on q.name = l.queue
      cross join lateral search_begins(q, l.id, p_cursor_lane, p_cursor_run_at, p_cursor_task, p_seen) c
      where q.paused is not true
        -- To pass by an empty lane here costs a tenth of a visit. Not as `exists`, which might be planned as a join the other way round.
        and (l.queue = any (v_let_go_in)
             or (select true from ready r
                 where r.queue = l.queue and r.priority = l.priority and r.run_at <= v_now
                   and (r.run_at, r.task_id) > (c.after_run_at, c.after_task)
                 limit 1))
    loop
      if v_lane.concurrency is not null or v_lane.rate_limit is not null then
        -- A claim waits for the first such lock only: two claims that waited for a second one, in opposite order, would wait for each other.
        if v_is_trial then
          v_queue := null;
        else
          v_queue := hold_queue(v_lane.queue, not v_has_locked);
          if v_queue.name is null then
            v_is_held := true;
            v_held_queue := case when v_has_locked then v_held_queue else v_lane.queue end;
          end if;
          v_has_locked := true;
          continue when v_queue.name is null or v_queue.paused;
        end if;
        v_lane.concurrency := v_queue.concurrency;
        v_lane.rate_limit := v_queue.rate_limit;
        v_lane.rate_per_ms := v_queue.rate_per_ms;
      end if;
      v_rounds := 0;
      v_passes := 0;
      v_busy := null;
      v_is_bounded := false;
      v_is_cut_short := false;
      v_is_exhausted := false;
      v_end_run_at := v_now;
      v_end_task := c_last_id;
      -- A round may be used up by rows that are held back; a few more rounds fill the batch all the same.
      while v_claimed < v_total and v_rounds < c_rounds loop
        v_rounds := v_rounds + 1;
        v_is_stuck := false;
        v_is_cut_short := false;
        v_want := v_total - v_claimed;
        if p_queues is not null then
          v_slot := array_position(p_queues, v_lane.queue);
          v_want := least(v_want, p_room[v_slot]);
        end if;
        if v_lane.concurrency is not null then
          v_want := least(v_want, v_lane.concurrency - (select count(*) from running r where r.queue = v_lane.queue and r.limited));
        end if;
        -- Asked before the tasks themselves are looked at, because a task that is taken may spend the budget of its own rate key.
        if v_lane.rate_limit is not null then
          v_want := least(v_want, room_in_rate(v_lane.queue, v_lane.rate_limit, v_lane.rate_per_ms));
        end if;
        exit when v_want <= 0;

        -- First what our own ends have let go. It was met before, so it is its turn; and it is known where it is, while a search
        -- would begin behind it, or walk over everything that was parked with it.
        v_follows := v_rounds = 1 and v_lane.queue = any (v_let_go_in);
        if v_follows then
          -- They are free only as long as nothing was claimed, because that might have had the same key.
          select array_agg(picked.row_id), count(*), not (v_are_free and v_claimed = 0), null into v_rows, v_found, v_special, v_until
          from (
            select r.ctid as row_id from ready r
            where r.ctid = any (v_let_go) and r.queue = v_lane.queue and r.priority = v_lane.priority and r.run_at <= v_now
              and r.name = any (p_names)
            order by r.run_at, r.task_id
            limit v_want
          ) picked;
          continue when v_found = 0;
        else
          select array_agg(picked.row_id), count(*), bool_or(picked.gated or picked.expires_at <= now()), max(picked.run_at)
          into v_rows, v_found, v_special, v_until
          from (
            select r.ctid as row_id, r.run_at, r.gated, r.expires_at
            from ready r
            where r.queue = v_lane.queue and r.priority = v_lane.priority and (r.run_at, r.task_id) <= (v_end_run_at, v_end_task)
              and (r.run_at, r.task_id) > (v_lane.after_run_at, v_lane.after_task)
              and r.name = any (p_names)
              -- Once a key was found busy, all others that need it are passed by, without being locked.
              and (v_busy is null or not r.gated or (
                select true from task t
                where t.id = r.task_id
                  and (gate_lock_id('exclusive', t.exclusive_key) = any (v_busy) or gate_lock_id('rate', t.rate_key) = any (v_busy))) is null)
            order by r.run_at, r.task_id
            limit v_want
            for update skip locked
          ) picked;
          v_is_exhausted := v_found < v_want and not v_is_bounded;
          v_is_cut_short := v_found < v_want and v_is_bounded;
          exit when v_found = 0;
        end if;
        -- Two kinds are not claimed ahead, nor is anything that comes after them: a task that would keep others from something while it waits
        -- (a place, a part of a rate, a key), and a suspect, which might be convicted of a crash although it had not begun.
        if v_total > p_run + p_prefetch and (v_special or v_follows or v_lane.concurrency is not null or v_lane.rate_limit is not null) then
          v_total := greatest(p_run + p_prefetch, v_claimed);
          v_met := v_met || v_lane.queue;
          v_is_exhausted := false;
          v_is_cut_short := false;
          v_rows := v_rows[1 : v_total - v_claimed];
          exit when v_rows = '{}';
          v_found := cardinality(v_rows);
        end if;
        if v_special then
          v_picked := v_rows;
          -- The next round goes on behind them: those that stay are undecided, and would be met again.
          if not v_follows then
            select r.run_at, r.task_id into v_lane.after_run_at, v_lane.after_task from ready r where r.ctid = v_picked[v_found];
          end if;
          select * into v_rows, v_met_busy from admit(v_picked, p_replica);
          if v_met_busy <> '{}' then
            if v_busy is null then
              select r.run_at, r.task_id into v_end_run_at, v_end_task
              from ready r
              where r.queue = v_lane.queue and r.priority = v_lane.priority and r.run_at <= v_now
                and (r.run_at, r.task_id) > (v_lane.after_run_at, v_lane.after_task)
              order by r.run_at, r.task_id offset c_walk - 1 limit 1;
              v_is_bounded := found;
              v_end_run_at := coalesce(v_end_run_at, v_now);
              v_end_task := coalesce(v_end_task, c_last_id);
            end if;
            v_busy := v_busy || v_met_busy;
            v_is_held := true;
            v_held_from := least(v_held_from, (select min(run_at) from ready where ctid = any (v_picked) and ctid <> all (v_rows)));
            v_is_stuck := v_rows = '{}' and v_found = (select count(*) from ready where ctid = any (v_picked));
            if v_is_stuck and not v_follows and v_passes < c_passes then
              v_passes := v_passes + 1;
              v_rounds := v_rounds - 1;
              continue;
            end if;
          end if;
        end if;
        if v_lane.rate_limit is not null and cardinality(v_rows) > 0 then
          v_rows := v_rows[1 : take_rate('queue/' || v_lane.queue, v_lane.rate_limit, v_lane.rate_per_ms, cardinality(v_rows))];
          v_special := v_special and cardinality(v_rows) > 0;
        end if;
        v_found := cardinality(v_rows);
        if v_found > 0 then
          -- Not all that were picked.
          if (v_special or v_met <> '{}') and not v_follows or v_lane.rate_limit is not null then
            v_until := (select run_at from ready where ctid = v_rows[v_found]);
          end if;
          -- As many as have a slot run at once, those behind them are claimed ahead.
          foreach v_starts in array array[true, false] loop
            v_part := case when v_starts then v_rows[1 : greatest(p_run + p_reserve - v_claimed, 0)] else v_rows[greatest(p_run + p_reserve - v_claimed, 0) + 1 :] end;
            continue when cardinality(v_part) = 0;
            return query
              with gone as (
                delete from ready where ctid = any (v_part) returning *
              ), numbered as (
                -- In the order in which they should run.
                select nextval('claim_id') as claim_id, g.* from (select * from gone order by gone.run_at, gone.task_id) g
              ), put as (
                insert into running (claim_id, task_id, replica_id, state, name, queue, priority, run_at, gated, expires_at,
                                     attempt, failures, crashes, claimed_at, started_at, limited, exclusive_key)
                select g.claim_id, g.task_id, p_replica, case when v_starts then 'running' else 'claimed' end, g.name, g.queue, g.priority, g.run_at,
                       g.gated, g.expires_at, g.attempt, g.failures, g.crashes, now(), case when v_starts then now() end,
                       v_lane.concurrency is not null, case when g.gated then (select t.exclusive_key from task t where t.id = g.task_id) end
                from numbered g
              )
              select g.claim_id, g.task_id, case when not v_starts then 'claimed' end, g.name, nullif(g.attempt, 1),
                     nullif(g.failures, 0), nullif(g.crashes, 0), milliseconds(coalesce(t.created_at, g.run_at)),
                     coalesce(t.input, g.input, refuse_claim('the record of task ' || g.task_id || ' is missing')::json), t.metadata, case when g.gated then t.exclusive_key end,
                     null::text, null::smallint, null::uuid, null::timestamptz
              from numbered g
              left join lateral (select * from task where g.input is null and id = g.task_id offset 0) t on true;
          end loop;
          return next row(null, null, 'lane', null, null, null, null, null, null, null, null, v_lane.queue, v_lane.priority,
                          case when not v_follows then v_lane.id end, v_until)::claim_row;
          v_claimed := v_claimed + v_found;
          if v_follows then
            v_followed := v_followed + v_found;
          end if;
          if p_queues is not null then
            p_room[v_slot] := p_room[v_slot] - v_found;
          end if;
        end if;
        exit when not (v_special or v_follows);
        v_more := v_more or v_rounds = c_rounds and not v_is_stuck;
      end loop;
      if v_is_cut_short then
        return next row(null, v_end_task, 'short', null, null, null, null, null, null, null, null,
                        v_lane.queue, v_lane.priority, v_lane.id, v_end_run_at)::claim_row;
      end if;
      -- A queue with a limit has a time of its own: the others' does not hold for it (see is_searched_alike).
      v_is_limited := v_lane.concurrency is not null or v_lane.rate_limit is not null;
      v_has_seen_all := v_has_seen_all and (v_is_exhausted or v_is_limited);
      if v_is_limited and v_is_exhausted and v_rounds = 1 and v_passes = 0 and v_found = 0 and v_now - c_lag > v_lane.after_run_at then
        return next row(null, '00000000-0000-0000-0000-000000000000', 'lane', null, null, null, null, null, null, null, null,
                        v_lane.queue, v_lane.priority, v_lane.id, v_now - c_lag)::claim_row;
      end if;
      exit by_priority when v_claimed >= v_total;
    end loop;
  end loop;
  -- Ends that are followed by a claim ring for nobody. So the claim rings for what they have let go and it has not taken itself.
  if v_followed < cardinality(v_let_go) then
    perform ring(v_let_go_in);
  end if;
  -- This claim has locked them and left them. An idle worker that looked meanwhile has passed over locked rows, and so does not know of them.
  if v_met <> '{}' then
    perform ring(v_met);
  end if;
  if exists (select from follower) then
    perform tell_of_claims(p_replica);
  end if;
  if v_is_held then
    return next row(null, null, 'held', null, null, null, null, null, null, null, null, v_held_queue, null, null, null)::claim_row;
  end if;
  if v_has_seen_all and v_is_alive and v_claimed < v_total then
    -- The next search must find what was passed by.
    return next row(null, null, 'seen', null, null, null, null, null, null, null, null, null, null, null,
                    least(v_now - c_lag, v_held_from - interval '1 microsecond'))::claim_row;
  end if;
  if v_more or v_met <> '{}' then
    return next row(null, null, 'more', null, null, null, null, null, null, null, null, null, null, null, null)::claim_row;
  end if;
end $$;
