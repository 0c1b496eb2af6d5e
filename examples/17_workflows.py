"""Jobs that wait for others, chains and groups: results become arguments, and a failure stops what comes after it.

Install: pip install "treadle[embedded]"
"""

from treadle import Retries, Treadle, chain, group, ok_to_fail

app = Treadle()


@app.job
def pay(order: int) -> str:
    return f"receipt {order}"


@app.job
def weigh(item: str) -> float:
    return len(item) / 2


@app.job(retry=Retries(0))
def book_courier(order: int) -> str:
    raise ConnectionError("the courier does not answer")


@app.job
def ship(receipt: str, weights: list[float]) -> None:
    print(f"shipping {sum(weights):g} kg with {receipt}")


@app.job
def tell_customer(order: int) -> None:
    print("order", order, "is on its way")


paid = pay.enqueue(order=7)
weights = [weigh.enqueue(item) for item in ("tea", "teapot")]
shipped = ship.enqueue(receipt=paid.output, weights=[each.output for each in weights])
tell_customer.using(after=shipped).enqueue(order=7)
print("why:", shipped.why().name)

booked = book_courier.enqueue(order=8)
stopped = tell_customer.using(after=booked).enqueue(order=8)
anyway = tell_customer.using(after=ok_to_fail(booked)).enqueue(order=9)

whole = chain(pay.call(order=10), tell_customer.call(order=10)).enqueue("order 10")
heaviest = group(*(weigh.call(item) for item in ("cup", "saucer"))).enqueue()

app.run_worker(drain=True, concurrency=1)
print(f"{stopped.status()}: {str(stopped.job().last_error).split(', ', 1)[1]}")
print(anyway.status())
print(whole.status(), [job.job_type for job in whole.jobs()], "weights:", heaviest.result())
