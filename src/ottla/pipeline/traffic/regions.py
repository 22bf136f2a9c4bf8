"""Where generated users live and where their phone numbers come from.

The number ranges are real ones of their cities, so that a geocoder finds the city. Addresses are in 100.64.0.0/10,
which no user of the internet has: a second octet for each city.
"""

from typing import Final, NamedTuple

NUMBERS_PER_PREFIX: Final = 10_000
_FIRST_SECOND_OCTET: Final = 64


class City(NamedTuple):
    """A city and seven-digit ranges of its mobile numbers."""

    name: str
    province: str
    prefixes: tuple[str, ...]


class ForeignRange(NamedTuple):
    """Mobile numbers of another country: a prefix in E.164 form and how many digits follow it."""

    country: str
    prefix: str
    digits: int


def _city(name: str, province: str, prefixes: str) -> City:
    return City(name, province, tuple(prefixes.split()))


CITIES: Final = (
    _city("Beijing", "Beijing", "1300010 1326400 1362100 1500100 1530130 1565070 1800100 1820100 1871000 1707100"),
    _city("Shanghai", "Shanghai", "1300020 1330060 1351210 1500000 1521680 1570180 1800160 1812140 1870170 1707770"),
    _city("Tianjin", "Tianjin", "1300012 1316400 1351610 1500220 1534200 1572220 1800200 1842200 1869800 1762200"),
    _city("Chongqing", "Chongqing", "1300230 1325120 1352730 1500230 1521500 1573600 1800230 1831510 1859840 1772350"),
    _city("Guangzhou", "Guangdong", "1300040 1331088 1361030 1500200 1534742 1576741 1800220 1831266 1871884 1772435"),
    _city("Shenzhen", "Guangdong", "1300540 1332298 1357080 1500205 1550202 1576887 1800250 1831946 1870761 1768889"),
    _city("XiAn", "Shaanxi", "1300290 1332545 1350918 1500290 1528935 1570290 1800910 1820920 1869152 1774902"),
    _city("Chengdu", "Sichuan", "1300810 1333099 1364800 1500280 1538810 1568256 1800050 1816147 1859994 1776096"),
    _city("Hangzhou", "Zhejiang", "1300360 1328210 1358800 1500571 1537200 1572499 1800571 1835702 1869458 1770642"),
    _city("Harbin", "Heilongjiang", "1300098 1319950 1338450 1500450 1533111 1566380 1800360 1834850 1872451 1764554"),
    _city("Suzhou", "Jiangsu", "1300450 1327099 1370141 1500613 1531245 1570613 1800154 1812157 1855680 1771443"),
    _city("Jinan", "Shandong", "1300000 1324547 1357310 1500531 1537618 1569801 1800531 1856022 1867880 1766013"),
    _city("Zhengzhou", "Henan", "1300750 1328371 1366301 1500371 1533380 1563993 1800371 1830066 1863710 1773710"),
    _city("Wuhan", "Hubei", "1300008 1330710 1359390 1500270 1534278 1577103 1800710 1818670 1862770 1776300"),
    _city("Fuzhou", "Fujian", "1300380 1323590 1350930 1500500 1535975 1565999 1800500 1815908 1860606 1770591"),
    _city("Hefei", "Anhui", "1300300 1327577 1363551 1500551 1524003 1555652 1800551 1821473 1860565 1770565"),
    _city("Nanning", "Guangxi", "1300069 1336751 1364781 1500771 1529629 1567810 1800771 1817710 1858785 1777620"),
    _city("Changsha", "Hunan", "1300731 1327200 1354896 1500731 1536414 1560840 1800731 1821642 1861397 1771173"),
    _city("Kunming", "Yunnan", "1300865 1320889 1339885 1502510 1555960 1575297 1800871 1818781 1868750 1768712"),
    _city("Shenyang", "Liaoning", "1300240 1325270 1360421 1500240 1533114 1556624 1800240 1824030 1862431 1770240"),
)

FOREIGN_RANGES: Final = (
    ForeignRange("HK", "+8529", 7),
    ForeignRange("SG", "+659", 7),
    ForeignRange("MY", "+6012", 7),
    ForeignRange("TH", "+668", 8),
)

NUMBERS_PER_CITY: Final = NUMBERS_PER_PREFIX * min(len(city.prefixes) for city in CITIES)


def mobile_number(city: int, number: int) -> str:
    """The E.164 form of the city's n-th mobile number; neighbours differ by one in their last digits."""
    prefix = CITIES[city].prefixes[number // NUMBERS_PER_PREFIX]
    return f"+86{prefix}{number % NUMBERS_PER_PREFIX:04d}"


def address(city: int, host: int) -> str:
    """An address of the city by a number below 65,536; the upper eight bits choose the /24."""
    return f"100.{_FIRST_SECOND_OCTET + city}.{host >> 8 & 255}.{host & 255}"


def address_table() -> dict[str, tuple[str, str, str]]:
    """Network -> country, province and city: what a job may know about addresses."""
    return {
        f"100.{_FIRST_SECOND_OCTET + index}.0.0/16": ("CN", city.province, city.name)
        for index, city in enumerate(CITIES)
    }
