"""Values whose key looks like a secret are masked at any depth."""

import pytest

from treadle.text.masking import MASK, is_secret, masked


@pytest.mark.parametrize(
    "key",
    [
        *("password", "user_password", "PASSWD", "dbPasswd", "passphrase", "secret", "client-secret", "clientSecret"),
        *("token", "accessToken", "refresh_tokens", "api_key", "apikey", "API-KEY", "x-api-key", "APIKey", "accessKey"),
        *("Authorization", "cookie", "Set-Cookie", "credentials", "private_key", "privateKey", "session", "sessionId"),
        *("card", "card_number", "cardNumber", "creditcard", "iban", "customer_iban", "ssn", "SSN", "cvv", "pin"),
        *("auth", "basic_auth", "pwd", "jwt", "otp", "bearer"),
        *("DB_PASS", "smtp_pass", "redisPass", "dbpass", "ssl_passphrase_command", "session_token"),
    ],
)
def test_a_value_under_a_secret_key_is_masked(key: str) -> None:
    assert masked({key: "hunter2"}) == {key: MASK}


@pytest.mark.parametrize(
    "key", ["user_id", "name", "discard", "cardinality", "author", "className", "pinned", "key", "path", "spinner", ""]
)
def test_ordinary_keys_are_not_secret(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        *("idle_session_timeout", "idle_in_transaction_session_timeout", "sessionTimeout", "password_encryption"),
        *("session_replication_role", "session_preload_libraries", "target_session_attrs", "first_pass", "compass"),
    ],
)
def test_settings_whose_names_look_like_those_of_secrets_are_not_secret(key: str) -> None:
    assert not is_secret(key)


def test_secrets_are_masked_in_nested_objects_and_lists() -> None:
    value = {"users": [{"name": "ada", "login": {"password": ["a", "b"]}}], "auth": {"user": "x"}}
    assert masked(value) == {"users": [{"name": "ada", "login": {"password": MASK}}], "auth": MASK}


def test_none_and_booleans_are_not_masked() -> None:
    assert masked({"password": None, "has_token": True}) == {"password": None, "has_token": True}


def test_a_password_in_a_url_is_masked() -> None:
    assert masked(["see postgresql://ada:hunter2@host:5432/app, please"]) == [
        f"see postgresql://ada:{MASK}@host:5432/app, please"
    ]
    assert masked("https://host:8000/a@b") == "https://host:8000/a@b"


def test_masking_does_not_change_its_argument() -> None:
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
def test_a_password_in_a_truncated_url_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
