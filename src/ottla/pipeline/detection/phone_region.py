"""Where a phone number is from: country, province and city, by the offline tables of `phonenumbers`.

A place depends on a number's first digits, so answers are cached by them: a few thousand entries answer for all users.
A number of unknown origin has the country `ZZ`, which is not an error. Numbers themselves are kept nowhere.
"""

import re
from typing import Final, NamedTuple

import phonenumbers
import pyarrow as pa
from phonenumbers import geocoder

from ottla.pipeline.events.phone_hashing import plain_number

UNKNOWN_COUNTRY: Final = "ZZ"
# The longest prefix of the tables: calling code and seven digits for China.
_PREFIX_DIGITS: Final = 9
_PLACES_MAX: Final = 1 << 18
_MUNICIPALITIES: Final = frozenset(
    {"Beijing", "Shanghai", "Tianjin", "Chongqing", "北京市", "上海市", "天津市", "重庆市"}
)
# In Chinese a province and its city are one word; these are what it can begin with.
_CHINESE_PROVINCES: Final = re.compile(
    "(?:河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南|广东|海南|四川|贵州|云南|陕西|甘肃|青海)省|"
    "内蒙古|广西|西藏|宁夏|新疆"
)


class NumberPlace(NamedTuple):
    """Names in the wanted language; unknown ones are empty."""

    country: str
    province: str
    city: str


UNKNOWN_PLACE: Final = NumberPlace(UNKNOWN_COUNTRY, "", "")
PLACE_TYPE: Final = pa.struct([("country", pa.string()), ("province", pa.string()), ("city", pa.string())])


class PhoneRegions:
    """Answers from memory after the first number of a prefix; one for each process and language."""

    def __init__(self, *, calling_code: str = "86", language: str = "en") -> None:
        self._calling_code = calling_code
        self._language = language
        self._by_prefix: dict[tuple[str, int], NumberPlace] = {}

    def place_of(self, phone: str | None) -> NumberPlace:
        """Of a number in any writing."""
        number = plain_number(phone, calling_code=self._calling_code) if phone else ""
        digits = number[1:]
        if not (number.startswith("+") and digits.isascii() and digits.isdecimal()):
            return UNKNOWN_PLACE
        # Also by its length: one that is too long or too short is not a phone number.
        key = (digits[:_PREFIX_DIGITS], len(digits))
        place = self._by_prefix.get(key)
        if place is None:
            if len(self._by_prefix) >= _PLACES_MAX:
                self._by_prefix.clear()
            place = self._by_prefix[key] = self._geocoded(number)
        return place

    def places_of(self, phones: pa.Array | pa.ChunkedArray) -> pa.StructArray:
        """Of a column of numbers, which may hold nulls: each distinct number is looked up once."""
        flat = phones.combine_chunks() if isinstance(phones, pa.ChunkedArray) else phones
        encoded = flat.dictionary_encode(null_encoding="encode")
        places = pa.array([self.place_of(phone)._asdict() for phone in encoded.dictionary.to_pylist()], PLACE_TYPE)
        return places.take(encoded.indices)

    def _geocoded(self, number: str) -> NumberPlace:
        try:
            parsed = phonenumbers.parse(number)
        except phonenumbers.NumberParseException:
            return UNKNOWN_PLACE
        country = phonenumbers.region_code_for_number(parsed)
        # `001` are calling codes of no country, as those of satellites.
        if country is None or country == "001" or not phonenumbers.is_possible_number(parsed):
            return UNKNOWN_PLACE
        name = geocoder.description_for_number(parsed, self._language)
        if name == geocoder.country_name_for_number(parsed, self._language):
            return NumberPlace(country, "", "")
        return NumberPlace(country, *_province_and_city(name))


def _province_and_city(name: str) -> tuple[str, str]:
    """`Guangzhou, Guangdong`, `Beijing`, `Xinjiang`, `广东省广州市`."""
    if name in _MUNICIPALITIES:
        return name, name
    city, comma, province = name.rpartition(", ")
    if comma:
        return province, city
    chinese = _CHINESE_PROVINCES.match(name)
    if chinese is not None:
        return chinese[0], name[chinese.end() :]
    return name, ""
