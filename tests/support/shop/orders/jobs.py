from tests.support.shop.jobs import jobs as jobs
from treadle import JobGroup

orders = JobGroup()


@orders.job
def order(number: int) -> int:
    return number
