"""`ottla pipeline region`: where a phone number, or the user of an account, is from. A number is never printed."""

import re
from pathlib import Path
from typing import Any

import click

from ottla.cli.options import json_option
from ottla.cli.output import print_json, print_table
from ottla.cli.pipeline_options import (
    extras_installed,
    loaded_settings,
    opened_store,
    settings_option,
    store_choice,
    store_options,
)


@click.command("region")
@click.argument("phone_or_account", metavar="PHONE|ACCOUNT")
@click.option("--language", default="en", show_default=True, help="Language of the names, for a PHONE; such as zh.")
@store_options
@settings_option
@json_option
def region(
    phone_or_account: str,
    language: str,
    store: str,
    store_path: Path | None,
    cassandra: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Show country, province and city of a PHONE number, or of an ACCOUNT that is in the tables.

    A PHONE may be written in any format. With a store, the argument is an ACCOUNT if the tables have one of that name.
    """
    has_store = store_path is not None or cassandra is not None
    is_phone = re.fullmatch(r"\+?[\d\s().-]{5,}", phone_or_account) is not None
    found: dict[str, Any] | None = None
    if has_store and not phone_or_account.startswith("+"):
        found = _of_account(phone_or_account, store, store_path, cassandra)
    if found is None and (is_phone or phone_or_account.startswith("+")):
        found = _of_phone(phone_or_account, language, config)
    # The message doesn't repeat the argument: it may still be a phone number.
    if found is None and has_store:
        raise click.ClickException("no account of this name has a region in these tables; has job phone_region run?")
    if found is None:
        raise click.UsageError("this is not a phone number; for an account, say where the tables are: --store-path DIR")
    if as_json:
        print_json(found)
    else:
        print_table(list(found), [list(found.values())])
    return 0


def _of_phone(phone: str, language: str, config: Path | None) -> dict[str, Any]:
    with extras_installed():
        from ottla.pipeline.detection.phone_region import PhoneRegions
    calling_code = loaded_settings(config).get_text("phones.calling_code")
    return PhoneRegions(calling_code=calling_code, language=language).place_of(phone)._asdict()


def _of_account(account_id: str, store: str, store_path: Path | None, cassandra: str | None) -> dict[str, Any] | None:
    with opened_store(store_choice(store, store_path, cassandra)) as opened:
        rows = opened.lookup("user_region", [(account_id,)]).to_pylist()
    if not rows:
        return None
    return {name: rows[0][name] for name in ("account_id", "country", "province", "city")}
