"""Conditions on payloads, as people write them."""

import pytest

from treadle.text.payload_condition import index_statement, read_payload_condition
from treadle.words.errors import InvalidArgument
from treadle.words.payload_condition import PayloadCondition


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('data.order = "ORD-1999"', ("order",), '"ORD-1999"'),
        ("data.customer.id=7", ("customer", "id"), "7"),
        (" data.a.b.c  =  true ", ("a", "b", "c"), "true"),
        ("data.items.0.sku exists", ("items", "0", "sku"), None),
        ('data."a b"."it\'s".x = null', ("a b", "it's", "x"), "null"),
        ('data.exists = "= exists"', ("exists",), '"= exists"'),
        ("data.größe = [1, 2]", ("größe",), "[1, 2]"),
        ("data.token exists", ("token",), None),
    ],
)
def test_a_condition_is_read(text: str, path: tuple[str, ...], value: str | None) -> None:
    read = read_payload_condition(text)
    assert read == (path, value, ())
    assert read_payload_condition(str(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        "", "data", "data.", "data.x", "order = 1", "data.x = ORD-1999", "data.x = 'a'", "data.x = ", "data.x == 1",
        "data.x = 1 and", "data.x = 1 and y = 2", "data.x = 1 data.y = 2", "data.x exists data.y = 2",
        "data.x = 1 and data.y = 'a'", 'data.x = 1 and data.password = "hush"', "data.x existsand data.y = 1",
        " and ".join(["data.x = 1"] * 6), "data.x = NaN", "data.x = Infinity", "data.x = 1e999999999", "data.x = 1e301",
        'data.x = "\\u0000"', 'data.x = "\\ud800"', 'data.x = "\ud800"', 'data."\\u0000" = 1', "data.x = 1\0",
        "data.x = " + "[" * 300, "data.x = " + "9" * 400, "data." + "x" * 500 + " = 1", "data.x; drop table jobs",
        'data.password = "hush"', 'data.deep.api_key = "k"', "data.x[0] = 1", "data..x = 1", 'data."x = 1',
    ],
)  # fmt: skip
def test_a_wrong_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_payload_condition(text)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        "data.card.pin = 1234",
        'data.customer = {"pin": 1234}',
        'data.customers = [{"name": "Ada", "password": "hush"}]',
        'data.order = 7 and data.customer = {"pin": 1234}',
    ],
)
def test_a_secret_cannot_be_guessed(text: str) -> None:
    with pytest.raises(InvalidArgument, match="masked as secrets"):
        read_payload_condition(text)


def test_the_statement_for_an_index_is_quoted() -> None:
    statement = index_statement(PayloadCondition(("a b", "it's"), "1"), 'my "queue"')
    path = "data #> '{\"a b\",\"it''s\"}'"
    assert statement == (
        f'create index concurrently on "my ""queue""".jobs (jsonb_hash_extended({path}, 0), id) '
        f"where {path} is not null;"
    )


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("data.x = 1 and data.y exists", [(("x",), "1"), (("y",), None)]),
        ('data.x exists  and  data.y = " and data.z = 2"', [(("x",), None), (("y",), '" and data.z = 2"')]),
        ('data.a = {"b": [1, "c and"]} and data.and = null', [(("a",), '{"b": [1, "c and"]}'), (("and",), "null")]),
        (" and ".join(f"data.x{n} = {n}" for n in range(5)), [((f"x{n}",), str(n)) for n in range(5)]),
    ],
)
def test_several_conditions_are_joined(text: str, conditions: list[tuple[tuple[str, ...], str | None]]) -> None:
    read = read_payload_condition(text)
    assert [(each.path, each.value, each.also) for each in read.all] == [(*each, ()) for each in conditions]
    assert read_payload_condition(str(read)) == read
