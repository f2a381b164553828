create or replace function vitals_of(p_signs integer[]) returns json
language sql immutable
as $$
  select case when p_signs is not null then json_build_object(
    'memoryLimit', p_signs[1]::bigint * 4096, 'groupLimit', p_signs[2]::bigint * 4096, 'inHand', p_signs[3],
    'groupUsed', p_signs[4]::bigint * 4096, 'rss', p_signs[5]::bigint * 4096, 'heapUsed', p_signs[6]::bigint * 4096,
    'loopP50Ms', trim_scale(p_signs[7] / 10.0), 'loopP99Ms', trim_scale(p_signs[8] / 10.0), 'loopMaxMs', trim_scale(p_signs[9] / 10.0),
    'blockedForMs', p_signs[10], 'cpu', trim_scale(p_signs[11] / 100.0)) end
$$;
