-- What follows the end of a task: every function that ends tasks or attempts calls this, in the same transaction, once it has written the end. How a
-- task ended is in its row of `ended`. Code here must not wait for a lock: the transaction has the locks of claims and takes those of exclusive keys later,
-- so it could deadlock. What must lock something notes it here and does it at commit (ARCHITECTURE.md, "Ends and beginnings").
-- p_ended: tasks that have ended. p_again: tasks of which only an attempt has ended, which wait for another. Either may be null.
-- Nearly always nobody wants to know. So each thing that hangs here is left out by one look at a table that is empty then.
create or replace function after_end(p_ended uuid[], p_again uuid[] default null) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_looks record;
begin
  select exists (select from waiter) as are_awaited, exists (select from follower) as are_followed,
         exists (select from alert where kind = 'task-stalled' and resolved_at is null) as are_stalled
  into v_looks;
  if v_looks.are_awaited then
    perform tell_waiters(p_ended);
  end if;
  if v_looks.are_followed then
    perform tell_of_ends(p_ended, p_again);
  end if;
  if v_looks.are_stalled then
    -- And not only the next sweep: perhaps nobody sweeps.
    perform resolve_alerts_of('task-stalled', (p_ended || p_again)::text[]);
  end if;
end $$;
