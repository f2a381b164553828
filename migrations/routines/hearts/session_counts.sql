-- Whether the end of a heart's session would prove anything: its lock was taken in this epoch, and a beat has said so since the last
-- gap through which the server may not have lived.
create or replace function session_counts(p_heart heart, p_listening listening) returns boolean
language sql immutable
as $$ select coalesce(p_heart.session_epoch = p_listening.epoch and p_heart.beat_at >= p_listening.sessions_since, false) $$;
