"""Unique jobs: the same call twice is one job; debounce, throttle and expiry.

Install: pip install "treadle[embedded]"
"""

import time

from treadle import Debounce, DuplicateJob, Once, Throttle, Treadle

app = Treadle()


@app.job(unique=Once("tenant", while_pending=True))
def sync_account(tenant: str, full: bool = False) -> None:
    print("syncing", tenant, "fully" if full else "partly")


@app.job(unique=Debounce("1s", "product", at_most="5s"))
def update_index(product: int, reason: str) -> None:
    print("indexing product", product, "because of", reason)


@app.job(unique=Throttle(1, "1h", "user_id"))
def send_digest(user_id: int) -> None:
    print("digest for user", user_id)


first = sync_account.enqueue("acme")
second = sync_account.enqueue("acme", full=True)
print("the same job:", first.id == second.id, "new:", second.is_new)

changed = sync_account.using(unique=Once("tenant", while_pending=True, on_conflict="replace")).enqueue(
    "acme", full=True
)
print("changed:", changed.is_changed)

try:
    sync_account.using(unique=Once("tenant", on_conflict="raise")).enqueue("acme")
except DuplicateJob as duplicate:
    print("refused because of the first job:", duplicate.job_id == first.id)

for reason in ("price", "stock", "name"):
    update_index.enqueue(7, reason)

print("new digests:", [handle.is_new for handle in send_digest.enqueue_many([{"user_id": 1}, {"user_id": 1}])])

late = sync_account.using(unique=None, expires="1h").enqueue("other")
print("expires:", late.job().expires_at is not None)

time.sleep(1.1)  # the debounced job is due then
app.run_worker(drain=True, concurrency=1)
