"""Use the queue without a worker process: enqueue, claim, report progress, complete.

Install: pip install "treadle[embedded]"
"""

from treadle import JobQueue, Priority


def main() -> None:
    with JobQueue(worker_id="example") as queue:
        queue.enqueue("thumbnail", {"picture": 7})
        queue.enqueue("thumbnail", {"picture": 8}, priority=Priority.EXPLICIT)
        for job in queue.claim(["thumbnail"], batch_size=10):
            queue.start(job)
            queue.progress(job, 50, stage="resizing")
            queue.complete(job, {"picture": job.data["picture"], "bytes": 1834})
            print(f"picture {job.data['picture']}: {queue.get(job).status}")


if __name__ == "__main__":
    main()
