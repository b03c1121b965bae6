"""Struct fields are declared once, and exports and commands select from them."""

import msgspec
import pytest

from manilla.kit.fields import Fields


class Parcel(msgspec.Struct):
    id: int
    weight_grams: int

    @property
    def is_heavy(self) -> bool:
        return self.weight_grams > 1000


class Delivery(msgspec.Struct):
    parcel: Parcel
    driver: str


FIELDS = Fields(Parcel, number="id", kilograms=lambda parcel: parcel.weight_grams / 1000)
HEAVY = Parcel(7, 2500)


def test_fields_are_attributes_other_names_and_computed_values_in_the_given_order() -> None:
    columns = FIELDS.select("kilograms number is_heavy")
    assert {title: get(HEAVY) for title, get in columns.items()} == {
        "kilograms": 2.5,
        "number": 7,
        "is_heavy": True,
    }
    assert list(columns) == ["kilograms", "number", "is_heavy"]


def test_a_column_can_have_a_title_of_its_own() -> None:
    columns = FIELDS.select({"Parcel number": "number"})
    assert columns["Parcel number"](HEAVY) == 7


def test_a_record_that_holds_another_has_the_fields_of_both() -> None:
    columns = FIELDS.inside(Delivery, "parcel", who="driver").select("number who driver")
    delivery = Delivery(HEAVY, "Ada")
    assert [get(delivery) for get in columns.values()] == [7, "Ada", "Ada"]


def test_an_unknown_field_is_an_error_at_once() -> None:
    with pytest.raises(AttributeError, match="Parcel has no field height"):
        FIELDS.select("height")
