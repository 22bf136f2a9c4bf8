"""Where numbers are from, offline, with and without a cache, in columns."""

from random import Random

import phonenumbers
import pyarrow as pa
import pytest

from ottla.pipeline.detection.phone_region import UNKNOWN_PLACE, NumberPlace, PhoneRegions
from ottla.pipeline.traffic.regions import CITIES, FOREIGN_RANGES, NUMBERS_PER_PREFIX, mobile_number


def test_every_city_of_the_generator_is_found() -> None:
    regions = PhoneRegions()
    for index, city in enumerate(CITIES):
        for prefix in range(len(city.prefixes)):
            place = regions.place_of(mobile_number(index, prefix * NUMBERS_PER_PREFIX + 7))
            assert place == NumberPlace("CN", city.province, city.name)


@pytest.mark.parametrize(
    ("phone", "place"),
    [
        ("+8613000101234", NumberPlace("CN", "Beijing", "Beijing")),
        ("+12125550100", NumberPlace("US", "NY", "New York")),
        ("130 0040 1234", NumberPlace("CN", "Guangdong", "Guangzhou")),
        ("008613000401234", NumberPlace("CN", "Guangdong", "Guangzhou")),
        ("+6591234567", NumberPlace("SG", "", "")),
    ],
)
def test_places_of_numbers_in_any_writing(phone: str, place: NumberPlace) -> None:
    assert PhoneRegions().place_of(phone) == place


@pytest.mark.parametrize("phone", [None, "", "abc", "+", "+999123456789", "+861300", "+86" + "1" * 30, "+88161234567"])
def test_what_can_not_be_told_is_unknown(phone: str | None) -> None:
    assert PhoneRegions().place_of(phone) == UNKNOWN_PLACE


def test_foreign_numbers_have_their_country() -> None:
    for abroad in FOREIGN_RANGES:
        assert (
            PhoneRegions().place_of(abroad.prefix + "1234567"[-abroad.digits :].zfill(abroad.digits)).country
            == abroad.country
        )


def test_names_come_in_the_language_that_is_asked_for() -> None:
    chinese = PhoneRegions(language="zh")
    assert chinese.place_of("+8613000401234") == NumberPlace("CN", "广东省", "广州市")
    assert chinese.place_of("+8613000101234") == NumberPlace("CN", "北京市", "北京市")
    assert chinese.place_of("+8618007714321") == NumberPlace("CN", "广西", "南宁市")


def test_the_cache_answers_as_the_tables_do() -> None:
    random = Random(5)
    warm = PhoneRegions()
    for _ in range(300):
        phone = f"+86{random.choice((13, 15, 17, 18, 19))}{random.randrange(10**9):09d}"
        warm.place_of(phone[:10] + f"{random.randrange(10_000):04d}")
        if phonenumbers.is_valid_number(phonenumbers.parse(phone)):
            assert warm.place_of(phone) == PhoneRegions().place_of(phone)


def test_a_column_has_a_place_for_each_row() -> None:
    phones = pa.chunked_array([["+8613000101234", None], ["+8613000101234", "x"]], pa.string())
    places = PhoneRegions().places_of(phones)
    assert places.field("country").to_pylist() == ["CN", "ZZ", "CN", "ZZ"]
    assert places.field("city").to_pylist() == ["Beijing", "", "Beijing", ""]
    assert len(PhoneRegions().places_of(pa.array([], pa.string()))) == 0
