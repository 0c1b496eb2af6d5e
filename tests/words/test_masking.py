"""What looks like a secret is masked wherever it lies."""

import pytest

from treadle.words.masking import MASK, is_secret, masked


@pytest.mark.parametrize(
    "key",
    [
        *("password", "user_password", "PASSWD", "dbPasswd", "passphrase", "secret", "client-secret", "clientSecret"),
        *("token", "accessToken", "refresh_tokens", "api_key", "apikey", "API-KEY", "x-api-key", "APIKey", "accessKey"),
        *("Authorization", "cookie", "Set-Cookie", "credentials", "private_key", "privateKey", "session", "sessionId"),
        *("card", "card_number", "cardNumber", "creditcard", "iban", "customer_iban", "ssn", "SSN", "cvv", "pin"),
        *("auth", "basic_auth", "pwd", "jwt", "otp", "bearer"),
    ],
)
def test_these_are_secrets(key: str) -> None:
    assert masked({key: "hunter2"}) == {key: MASK}


@pytest.mark.parametrize(
    "key", ["user_id", "name", "discard", "cardinality", "author", "className", "pinned", "key", "path", "spinner", ""]
)
def test_these_are_not(key: str) -> None:
    assert not is_secret(key)


def test_nested_and_in_lists() -> None:
    value = {"users": [{"name": "ada", "login": {"password": ["a", "b"]}}], "auth": {"user": "x"}}
    assert masked(value) == {"users": [{"name": "ada", "login": {"password": MASK}}], "auth": MASK}


def test_whether_there_is_one_is_no_secret() -> None:
    assert masked({"password": None, "has_token": True}) == {"password": None, "has_token": True}


def test_a_password_in_a_url() -> None:
    assert masked(["see postgresql://ada:hunter2@host:5432/app, please"]) == [
        f"see postgresql://ada:{MASK}@host:5432/app, please"
    ]
    assert masked("https://host:8000/a@b") == "https://host:8000/a@b"


def test_what_is_given_is_left_as_it_is() -> None:
    value = {"a": [{"token": "x"}]}
    masked(value)
    assert value == {"a": [{"token": "x"}]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see postgresql://ada:hus", "see postgresql://ada:********"),
        ("see postgresql://ada:hus…), again", "see postgresql://ada:********…), again"),
        ("a://ada:hus\nb", "a://ada:********\nb"),
        ("see http://host:8080", "see http://host:8080"),
        ("(see http://host:8080).", "(see http://host:8080)."),
        ("http://host:8080…", "http://host:8080…"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://host:8080/path, and more", "http://host:8080/path, and more"),
    ],
)
def test_a_password_that_was_cut_off_with_its_url(text: str, shown: str) -> None:
    assert masked(text) == shown
