from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from manilla.kit import strict_json
from manilla.kit.strict_json import JsonError


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": 1,}', "not valid JSON"),
        (b'{"a": 01}', "not valid JSON"),
        (b'{"a": "\n"}', "not valid JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1, "a": 2}', "repeats a key"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "repeats a key"),
        (b"[" * 17 + b"]" * 17, "nested more than 16"),
        (b"[" * 30_000, "nested more than 16"),
        (b'{"a":' * 17 + b"1" + b"}" * 17, "nested more than 16"),
    ],
)
def test_ambiguous_or_malformed_json_is_rejected(document: bytes, complaint: str) -> None:
    with pytest.raises(JsonError, match=complaint):
        strict_json.decode(document)


def test_numbers_are_exact_and_large_exponents_are_not_expanded() -> None:
    assert strict_json.decode(b"[0.1, 1e400, -1E-5, 3]") == [
        Decimal("0.1"),
        Decimal("1e400"),
        Decimal("-0.00001"),
        3,
    ]


def test_sixteen_levels_of_nesting_are_accepted() -> None:
    assert strict_json.decode(b"[" * 16 + b"]" * 16)


LEAVES = st.sampled_from(
    ['""', '"a"', '"\\u0061"', '"a b"', '"\\""', "0", "-0", "1", "0.10", "1e400", "null", "true"]
)
KEYS = st.sampled_from(['"a"', '"b"', '"\\u0061"', '""'])
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
)


@given(DOCUMENTS)
def test_the_fast_decoder_returns_only_what_the_strict_one_does(document: str) -> None:
    fast = strict_json._decode_fast(document.encode())
    try:
        strict = strict_json._decode_strictly(document.encode())
    except JsonError:
        strict = UNSET
    assert fast is UNSET or (fast == strict and repr(fast) == repr(strict))


def test_a_plain_document_needs_only_the_fast_decoder() -> None:
    document = b'{"amount": 10.50, "beneficiary": {"bank_code": "058"}, "list": ["a", 1]}'
    assert strict_json._decode_fast(document) == strict_json.decode(document)


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "x\udfff", "\udc00\ud800"])
def test_text_that_postgresql_cannot_store_is_found_at_any_depth(text: str) -> None:
    assert not strict_json.is_storable(text)
    assert not strict_json.is_storable({"deep": [{"er": text}]})
    assert not strict_json.is_storable({text: 1})


def test_ordinary_text_in_any_language_can_be_stored() -> None:
    assert strict_json.is_storable({"name": "Adébáyọ̀ ₦ 😀 \u202e\u200b", "list": [1, None, True]})


@pytest.mark.parametrize(
    "number", ["9" * 5000, "1e99999999999999999999", "1e-99999999999999999999"]
)
def test_an_enormous_number_compares_as_larger_than_any_limit(number: str) -> None:
    assert strict_json.decode(f'{{"a": {number}}}'.encode()) == {"a": strict_json.BEYOND_BOUNDS}
