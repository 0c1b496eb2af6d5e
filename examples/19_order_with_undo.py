"""An order whose steps are undone, in the reverse order of their completion, because the last one fails.

Install: pip install "treadle[embedded]"
"""

from treadle import Retries, Treadle, Workflow

app = Treadle()


@app.job
def pay(order: int) -> str:
    print("pay", order)
    return f"receipt {order}"


@app.job
def refund(receipt: str) -> None:
    print("refund", receipt)


@app.job
def pack(order: int) -> None:
    print("pack", order)


@app.job
def unpack(order: int) -> None:
    print("unpack", order)


@app.job(retry=Retries(0))
def ship(order: int) -> None:
    raise ConnectionError("the courier does not answer")


order = Workflow("order 7")
paid = order.add(pay.call(7), undo=refund.call())  # its result is the first argument of undo
packed = order.add(pack.call(7), undo=unpack.call(7), after=paid)
order.add(ship.call(7), after=packed)
handle = order.enqueue()

app.run_worker(drain=True, concurrency=1)
print(handle.status(), str(handle.job().last_error).split(") ", 1)[1])
