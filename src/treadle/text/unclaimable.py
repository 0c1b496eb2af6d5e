"""The statement that repairs pending jobs which no worker can claim."""

from collections.abc import Sequence


def give_attempts(schema: str, ids: Sequence[object]) -> str:
    """Gives the jobs a valid number of attempts, of which at least one is left. `schema` is an SQL identifier."""
    chosen = ", ".join(f"'{each}'" for each in ids)
    return (
        f"update {schema}.jobs set attempts = coalesce(attempts, 0), "
        "max_attempts = greatest(coalesce(max_attempts, 3), coalesce(attempts, 0) + 1) "
        f"where status = 'pending' and id in ({chosen});"
    )


def why_unclaimable(attempts: int | None, max_attempts: int | None) -> str | None:
    """What is wrong with the attempts of a pending job. None: nothing, attempts < max_attempts."""
    if attempts is None:
        return "attempts is null"
    if max_attempts is None:
        return "max_attempts is null"
    if max_attempts < 1 and attempts >= max_attempts:
        return f"max_attempts is {max_attempts}"
    if attempts >= max_attempts:
        return f"it has used {attempts} of {max_attempts} attempt{'' if max_attempts == 1 else 's'}"
    return None
