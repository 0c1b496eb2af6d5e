"""A workflow that waits for a person, without occupying a worker.

Install: pip install "treadle[embedded]"
"""

from treadle import Treadle, Workflow, wait_for_signal

app = Treadle()


@app.job
def write(title: str) -> str:
    return title.upper()


@app.job
def publish(text: str, approval: dict[str, str]) -> str:
    return f"{text}, approved by {approval['by']}"


article = Workflow("article 7")
draft = article.add(write.call("on looms"), name="write")
approval = article.add(wait_for_signal("approved", dict[str, str], timeout="2d"), name="approval", after=draft)
article.returns(article.add(publish.call(draft.output, approval.output), name="publish"))
handle = article.enqueue()

app.run_worker(drain=True, concurrency=1)
print(handle.steps["approval"].why().sentence.split(" since ")[0])

print("taken:", handle.signal("approved", by="ann"))
print("taken:", handle.signal("approved", by="bob"))
app.run_worker(drain=True, concurrency=1)
print(handle.result())
