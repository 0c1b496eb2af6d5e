select
    jump.before,
    jump.after,
    extract(epoch from jump.after - jump.before)::double precision
from treadle.clock_jumps as jump
where jump.after > clock_timestamp() - make_interval(secs => %(seconds)s)
order by jump.id desc
