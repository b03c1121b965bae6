"""The origins that a merchant allows to show checkout in a frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.kit.environment import Environment
from manilla.merchants import checkout_origins
from manilla.merchants.checkout_origins import BadOrigins

SANDBOX, PRODUCTION = Environment.SANDBOX, Environment.PRODUCTION


@pytest.mark.parametrize(
    ("line", "origin"),
    [
        ("https://shop.example", "https://shop.example"),
        ("  HTTPS://Shop.Example/ ", "https://shop.example"),
        ("https://shop.example:443", "https://shop.example"),
        ("https://shop.example:8443", "https://shop.example:8443"),
        ("https://xn--caf-dma.example", "https://xn--caf-dma.example"),
        ("https://192.0.2.7", "https://192.0.2.7"),
    ],
)
@pytest.mark.parametrize("environment", list(Environment))
def test_an_origin_is_normalized(line: str, origin: str, environment: Environment) -> None:
    assert checkout_origins.parse(line, environment) == [origin]


@pytest.mark.parametrize(
    "line",
    [
        "shop.example",
        "https://",
        "https://shop.example/cart",
        "https://shop.example?x=1",
        "https://shop.example#x",
        "https://user@shop.example",
        "https://*.shop.example",
        "*",
        "'self'",
        "https:",
        "data:",
        "ftp://shop.example",
        "https://shop.example; script-src *",
        "https://shop.example https://other.example",
        "https://shop.example,https://other.example",
        "https://shop..example",
        "https://-shop.example",
        "https://café.example",
        "https://shop.example:0",
        "https://shop.example:65536",
        "https://shop.example:",
        "https://999.1.1.1",
        "https://1.2.3",
        "https://" + "a." * 130 + "example",
        "http://shop.example",
        "http://localhost.shop.example",
    ],
)
@pytest.mark.parametrize("environment", list(Environment))
def test_a_text_that_is_no_allowed_origin_is_rejected(line: str, environment: Environment) -> None:
    with pytest.raises(BadOrigins) as caught:
        checkout_origins.parse(f"https://shop.example\n{line}", environment)
    assert caught.value.errors is not None
    assert line[:100] in caught.value.errors["origins"]


@pytest.mark.parametrize("line", ["http://localhost:3000", "http://127.0.0.1:8080"])
def test_a_local_origin_without_tls_is_allowed_in_the_sandbox_only(line: str) -> None:
    assert checkout_origins.parse(line, SANDBOX) == [line]
    with pytest.raises(BadOrigins):
        checkout_origins.parse(line, PRODUCTION)


def test_duplicates_and_empty_lines_are_dropped() -> None:
    text = "https://a.example\n\n https://b.example\r\nhttps://A.example/\n"
    assert checkout_origins.parse(text, PRODUCTION) == ["https://a.example", "https://b.example"]
    assert checkout_origins.parse(" \n", PRODUCTION) == []


def test_at_most_twenty_origins_are_allowed() -> None:
    lines = [f"https://shop{number}.example" for number in range(21)]
    assert len(checkout_origins.parse("\n".join(lines[:20]), PRODUCTION)) == 20
    with pytest.raises(BadOrigins):
        checkout_origins.parse("\n".join(lines), PRODUCTION)


@given(st.text(max_size=60))
def test_no_text_gets_a_second_source_or_directive_into_the_policy(text: str) -> None:
    for line in (text, f"https://{text}", f"https://shop.example{text}"):
        try:
            origins = checkout_origins.parse(line, SANDBOX)
        except BadOrigins:
            continue
        assert not set("".join(origins)) & set(" ;,*'\"\\\t")
