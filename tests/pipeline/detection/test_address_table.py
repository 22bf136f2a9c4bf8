"""Tables of addresses: the narrowest network decides; what is wrong is named."""

from pathlib import Path

import pytest

from ottla.pipeline.detection.address_table import AddressTableError, address_table, load_address_table
from ottla.pipeline.detection.facts import Region


def test_the_narrowest_network_decides() -> None:
    region_of = address_table(
        {
            "100.0.0.0/8": ["CN", "Hubei", "Wuhan"],
            "100.64.0.0/16": ["CN", "Beijing", "Beijing"],
            "100.64.7.0/24": ["CN", "Hunan", "Changsha"],
            "2001:db8::/32": ["SG", "", ""],
        }
    )
    assert region_of("100.64.7") == Region("CN", "Hunan")
    assert region_of("100.64.8") == Region("CN", "Beijing")
    assert region_of("100.9.9") == Region("CN", "Hubei")
    assert region_of("2001:0db8:0007") == Region("SG", "")
    assert region_of("9.9.9") is None
    assert region_of("2002:0000:0000") is None


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"10.0.0.0/33": ["a", "b", "c"]}', '{"10.0.0.0/25": ["a", "b", "c"]}', '{"10.0.0.0/8": "CN"}']
)
def test_a_file_that_is_no_table_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(AddressTableError, match=r"table\.json"):
        load_address_table(path)
