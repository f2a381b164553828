/**
 * A small feature that hangs on the ends of tasks, as workflows will: once all tasks that it waits for have ended, a join puts in the task that
 * follows. The hook only notes which joins are concerned. A check at commit does the rest, once for all ends of the transaction: so a join's
 * lock is the last one that is taken, after those of claims and exclusive keys, and nobody waits for anything while holding it.
 */
export const JOINS = `
  create table join_point (id integer primary key, revision integer not null default 0, followed_by uuid);
  create table join_edge (task uuid primary key, join_point integer not null, settled_as text);
  create table join_due (xact xid8 not null default pg_current_xact_id(), join_point integer not null, primary key (xact, join_point));

  alter function everbeat.after_end rename to after_end_of_plain_tasks;
  create function everbeat.after_end(p_ended uuid[], p_again uuid[] default null) returns void
  language plpgsql set search_path from current as $$
  begin
    perform everbeat.after_end_of_plain_tasks(p_ended, p_again);
    if exists (select from public.join_point) then
      insert into public.join_due (join_point) select distinct join_point from public.join_edge where task = any (p_ended)
      on conflict do nothing;
    end if;
  end $$;

  create function advance_joins() returns trigger
  language plpgsql set search_path from current as $$
  declare
    v_points integer[];
    v_point  integer;
  begin
    with due as (delete from join_due where xact = pg_current_xact_id() returning join_point)
    select array_agg(join_point order by join_point) into v_points from due;
    -- The others of this transaction have been seen to by the first.
    if v_points is null then
      return null;
    end if;
    -- A revision, and not only a lock: in a snapshot that is older than another end, this fails instead of counting wrong.
    for v_point in select id from join_point where id = any (v_points) order by id for update loop
      update join_point set revision = revision + 1 where id = v_point;
    end loop;
    -- In a later statement than the lock: it sees what others have settled meanwhile.
    update join_edge set settled_as = e.state from everbeat.ended e
    where join_point = any (v_points) and settled_as is null and e.task_id = task;
    update join_point p set followed_by = everbeat.enqueue('follow', to_json(id))
    where id = any (v_points) and followed_by is null
      and not exists (select from join_edge e where e.join_point = p.id and settled_as is null);
    return null;
  end $$;
  create constraint trigger join_due_at_commit after insert on join_due
  deferrable initially deferred for each row execute function advance_joins();`;
