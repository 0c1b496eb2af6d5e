"""References to stored contents: small, self-describing JSON."""

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter

from tests.support.stores import REFERENCE
from treadle import InvalidPayload, Stored, Treadle


class Album(BaseModel):
    model_config = ConfigDict(strict=True)
    cover: Stored
    pictures: dict[str, list[Stored]] = {}


@pytest.mark.parametrize("hint", [Stored, Stored | None, Stored | str, Any])
def test_a_reference_is_small_self_describing_json(hint: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    text = adapter.dump_json(REFERENCE)
    assert json.loads(text) == {"stored": str(REFERENCE.id), "size": 3, "digest": "0" * 64, "name": "a.txt"}
    if hint is not Any:
        assert adapter.validate_json(text) == REFERENCE
    assert adapter.validate_python(REFERENCE) is REFERENCE
    assert "name" not in json.loads(adapter.dump_json(replace(REFERENCE, name=None)))


def test_a_reference_can_be_a_field_of_a_model() -> None:
    album = Album(cover=REFERENCE, pictures={"a": [REFERENCE, REFERENCE]})
    assert Album.model_validate_json(album.model_dump_json()) == album
    assert Album.model_json_schema()["properties"]["cover"]["required"] == ["stored", "size", "digest"]
    with pytest.raises(FrozenInstanceError):
        REFERENCE.size = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"bytes",
        {},
        {"stored": "no uuid", "size": 3, "digest": "0" * 64},
        {"stored": 7, "size": 3, "digest": "0" * 64},
        {"stored": str(uuid4()), "size": True, "digest": "0" * 64},
        {"stored": str(uuid4()), "size": -1, "digest": "0" * 64},
        {"stored": str(uuid4()), "size": 3, "digest": "short"},
        {"stored": str(uuid4()), "size": 3, "digest": "0" * 64, "name": 7},
    ],
)
def test_an_invalid_reference_is_refused(app: Treadle, value: Any) -> None:
    @app.job
    def resize(picture: Stored) -> None: ...

    with pytest.raises(InvalidPayload, match=r"resize\.picture: Input should be what app\.store\(…\) returns"):
        resize.enqueue(value)
