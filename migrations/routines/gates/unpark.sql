-- Lets as many parked tasks go as these keys have room for, and as many from each of their queues: one queue may be
-- paused or have no workers, and those of the others must not wait for it. What is too many parks again. Returns where they
-- are now in `ready`, and whether they are free: nothing else can hold them back, and there is room for all of them, so whoever
-- claims them in the same transaction, which has the locks of their keys, before anything else, need not ask admit() again.
create or replace function unpark(p_keys text[], out let_go tid[], out are_free boolean)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_key   text;
  v_queue text;
  v_first record;
  v_has_key boolean;
  v_patience_ms double precision := 400; -- for all keys together
  v_asked_at timestamptz;
begin
  let_go := '{}';
  are_free := true;
  for v_key in select distinct k from unnest(p_keys) k where k is not null order by k loop
    if not pg_try_advisory_xact_lock(gate_lock_id('exclusive', v_key)) then
      -- A claim has it for a moment. Whoever has it for longer must not hold up all that ends: upkeep lets go what is left here. Each key gets half of the
      -- patience that is left, so that one which is kept leaves some for the others.
      v_asked_at := clock_timestamp();
      v_has_key := wait_for_key(v_key, floor(v_patience_ms / 2)::integer);
      v_patience_ms := v_patience_ms - greatest(0, extract(epoch from clock_timestamp() - v_asked_at) * 1000);
      continue when not v_has_key;
    end if;
    v_queue := '';
    loop
      -- Looked for once, and the others from there: before the first in line are the dead entries of all that were let go before.
      select p.ctid as row_id, p.queue, p.priority, p.run_at, p.task_id,
             -- One whose record is missing is let go, too: a claim sets it aside.
             coalesce(t.exclusive_limit, 1) - (select count(*)::integer from running u where u.exclusive_key = v_key) as room,
             p.expires_at is null and t.rate_key is null and coalesce(t.exclusive_limit, 0) = 1
               and not exists (select from suspicion s where s.task_id = p.task_id) as is_free,
             (select n.queue from parked n where n.exclusive_key = v_key and n.queue > p.queue order by n.queue limit 1) as next_queue
      into v_first
      from parked p left join task t on t.id = p.task_id
      where p.exclusive_key = v_key and p.queue >= v_queue
      order by p.queue, p.priority, p.run_at, p.task_id limit 1 for update of p skip locked;
      exit when not found or v_first.room <= 0;
      let_go := let_go || v_first.row_id;
      are_free := are_free and v_first.is_free and v_first.next_queue is null;
      if v_first.room > 1 then
        let_go := let_go || array(
          select p.ctid from parked p
          where p.exclusive_key = v_key and p.queue = v_first.queue
            and (p.priority, p.run_at, p.task_id) > (v_first.priority, v_first.run_at, v_first.task_id)
          order by p.priority, p.run_at, p.task_id limit v_first.room - 1 for update skip locked);
      end if;
      v_queue := v_first.next_queue;
      exit when v_queue is null;
    end loop;
  end loop;
  if let_go <> '{}' then
    let_go := make_ready(let_go);
  end if;
end $$;
