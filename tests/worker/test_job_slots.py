"""The shared memory in which a worker notes its running jobs."""

from uuid import uuid4

from treadle.worker.job_slots import _SIZE, _STATE_AT, JobSlots


def test_only_slots_that_were_used_are_read() -> None:
    slots = JobSlots.create(10_000)
    reader = JobSlots(slots.descriptor, slots.count)
    try:
        assert reader.entries() == []
        ids = [uuid4() for _ in range(300)]
        taken = [slots.add(each, 1, 0.0) for each in ids]
        assert {entry.id for entry in reader.entries()} == set(ids)
        for each in taken[:299]:
            slots.remove(each)
        assert [entry.id for entry in reader.entries()] == [ids[299]]
        slots._memory[5_000 * _SIZE + _STATE_AT] = 1
        assert [entry.id for entry in reader.entries()] == [ids[299]], "it reads slots that were never used"
    finally:
        reader._memory.close()
        slots.close()
