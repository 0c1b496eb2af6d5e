"""Unique jobs: the same call twice is one job; debounce, throttle and expiry.

Install: pip install "treadle[embedded]"
"""

import time

from treadle import DuplicateJob, Treadle

app = Treadle()


@app.job(unique=["tenant"], while_="pending")
def sync_account(tenant: str, full: bool = False) -> None:
    print("syncing", tenant, "fully" if full else "partly")


@app.job(debounce="1s", debounce_limit="5s", unique=["product"])
def update_index(product: int, reason: str) -> None:
    print("indexing product", product, "because of", reason)


@app.job(throttle="1 per 1h", unique=["user_id"])
def send_digest(user_id: int) -> None:
    print("digest for user", user_id)


first = sync_account.enqueue("acme")
second = sync_account.enqueue("acme", full=True)
print("the same job:", first.id == second.id, "new:", second.is_new)

changed = sync_account.using(on_conflict="replace").enqueue("acme", full=True)
print("changed:", changed.is_changed)

try:
    sync_account.using(on_conflict="raise").enqueue("acme")
except DuplicateJob as duplicate:
    print("refused because of the first job:", duplicate.job_id == first.id)

for reason in ("price", "stock", "name"):
    update_index.enqueue(7, reason)

print("new digests:", [handle.is_new for handle in send_digest.enqueue_many([{"user_id": 1}, {"user_id": 1}])])

late = sync_account.using(unique=None, expires="1h").enqueue("other")
print("expires:", late.job().expires_at is not None)

time.sleep(1.1)  # the debounced job is due then
app.run_worker(drain=True, concurrency=1)
