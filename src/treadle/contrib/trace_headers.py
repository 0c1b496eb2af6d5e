"""The headers in which the context of a trace goes with a job."""

from collections.abc import Mapping

from treadle.words.errors import InvalidArgument
from treadle.words.headers import encode_headers

BAGGAGE = "baggage"


def add_context(headers: dict[str, str], context: Mapping[str, str]) -> None:
    """Add these to the headers of a job. Baggage is added to what there is: of the caller, or of another library.

    Baggage may have 8 kB, as much as all headers of a job. What does not fit is left out: the job is not refused.
    """
    added = dict(context)
    if BAGGAGE in headers and BAGGAGE in added:
        added[BAGGAGE] = f"{headers[BAGGAGE]},{added[BAGGAGE]}"
    while added and not _fit({**headers, **added}):
        del added[max(added, key=lambda name: len(added[name]))]
    headers.update(added)


def _fit(headers: Mapping[str, str]) -> bool:
    try:
        encode_headers(headers)
    except InvalidArgument:
        return False
    return True
