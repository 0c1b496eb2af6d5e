select queue, job_type, priority, depth, depth < counted_to, due_first, paused
from treadle.find_lanes()
