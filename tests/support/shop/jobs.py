from treadle import JobGroup

jobs = JobGroup()


@jobs.job(process=True)
def in_a_process(number: int) -> int:
    return number + 1
