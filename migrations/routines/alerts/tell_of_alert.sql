-- Whoever raises or resolves an alert, here or by hand, tells of it in the same transaction: those who listen, by a notice; and each channel on record, by a
-- delivery that is to be made. `on conflict`: after a failover the ids of alerts that were lost may come again.
create or replace function tell_of_alert() returns trigger
language plpgsql set search_path from current
as $$
declare
  v_change constant text := case when new.resolved_at is null then 'raised' else 'resolved' end;
begin
  perform notify_all('alert', new.id || ' ' || v_change);
  insert into alert_delivery (alert_id, change, channel) select new.id, v_change, name from alert_channel
  on conflict (alert_id, change, channel) do update set tries = 0, next_try_at = now(), delivered_at = null, last_error = null, created_at = now();
  return null;
end $$;

create or replace trigger alert_raised after insert on alert for each row execute function tell_of_alert();
create or replace trigger alert_resolved after update of resolved_at on alert
for each row when (old.resolved_at is null and new.resolved_at is not null) execute function tell_of_alert();
