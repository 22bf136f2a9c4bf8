"""`ottla pipeline show`, `late`, `init-store` and `expire`: the tables of any store.

The commands import Arrow when they run, so that a missing extra gives a clear error.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.failures import nearest
from ottla.cli.options import json_option
from ottla.cli.output import Column, number, print_json, print_table, say
from ottla.cli.pipeline_options import (
    extras_installed,
    loaded_settings,
    opened_store,
    settings_option,
    store_choice,
    store_options,
)
from ottla.pipeline.tables import LATE_EVENT, SERVING_TABLES, TABLES, TEXT, Table

if TYPE_CHECKING:
    from ottla.pipeline.stores.port import Store
    from ottla.pipeline.viewing.table_view import Order

_DEFAULT_LIMIT: Final = 50


@click.command("show")
@click.argument("table", required=False, metavar="[TABLE]")
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Such as "account_id = u1 and amount > 5"; may be repeated, all must hold.',
)
@click.option("--columns", metavar="A,B,…", help="Only these, in this order.")
@click.option("--order", metavar="COLUMN[:desc],…", help="Default: by the table's key.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_DEFAULT_LIMIT,
    show_default=True,
    help="Print at most this number of rows; 0 prints all.",
)
@store_options
@json_option
def show(
    table: str | None,
    conditions: tuple[str, ...],
    columns: str | None,
    order: str | None,
    limit: int,
    store: str,
    store_path: Path | None,
    cassandra: str | None,
    as_json: bool,
) -> None:
    """Print the rows of a table; without TABLE, the tables and their numbers of rows."""
    choice = store_choice(store, store_path, cassandra)
    if table is None:
        with opened_store(choice) as opened:
            _show_tables(opened, as_json)
        return
    declared = _table_named(table)
    with extras_installed():
        from ottla.pipeline.viewing.conditions import BadCondition, column_of, parse_conditions
        from ottla.pipeline.viewing.table_view import view
    try:
        where = parse_conditions(declared, conditions)
        shown = [column_of(declared, name.strip()) for name in columns.split(",")] if columns else []
        by = _order(declared, order)
    except BadCondition as error:
        raise click.UsageError(str(error)) from error
    with opened_store(choice) as opened:
        found = view(opened, declared, columns=shown, where=where, order=by, limit=limit or None)
    rows = found.rows.to_pylist()
    if as_json:
        print_json(rows)
        return
    names = shown or list(declared.column_names)
    texts = {column.name for column in declared.columns if column.type == TEXT}
    heads = [Column(name, is_number=name not in texts) for name in names]
    print_table(heads, [[row[name] for name in names] for row in rows])
    if len(rows) < found.found:
        say(f"{len(rows):,} of {found.found:,} rows; --limit 0 shows all")


@click.command("late")
@store_options
@json_option
def late(store: str, store_path: Path | None, cassandra: str | None, as_json: bool) -> None:
    """Count late events by topic; `ottla pipeline show late_event` lists them."""
    choice = store_choice(store, store_path, cassandra)
    with extras_installed():
        from ottla.pipeline.viewing.table_view import whole
    with opened_store(choice) as opened:
        rows = whole(opened, LATE_EVENT, ["topic", "behind_ms"])
    summed = rows.group_by("topic").aggregate([("behind_ms", "count"), ("behind_ms", "max"), ("behind_ms", "mean")])
    topics = [
        {
            "topic": row["topic"],
            "events": row["behind_ms_count"],
            "behind_ms_max": row["behind_ms_max"],
            "behind_ms_mean": round(row["behind_ms_mean"]),
        }
        for row in summed.sort_by("topic").to_pylist()
    ]
    if as_json:
        print_json(topics)
    else:
        heads = ("topic", number("events"), number("behind ms, most"), number("behind ms, on average"))
        print_table(heads, [tuple(row.values()) for row in topics])


@click.command("init-store")
@store_options
def init_store(store: str, store_path: Path | None, cassandra: str | None) -> None:
    """Create the store and the tables that are missing; existing tables stay as they are."""
    choice = store_choice(store, store_path, cassandra)
    with opened_store(choice, may_be_new=True) as opened:
        before = set(opened.tables())
        opened.initialise()
        made = [name for name in opened.tables() if name not in before]
    done = f"created {len(made)} tables, {len(before)} existed" if made else "all tables existed"
    say(f"{choice.place}: {done}")


@click.command("expire")
@click.option(
    "--days", type=click.IntRange(min=1), help="Keep this number of days in every log table, instead of the settings."
)
@click.option("--execute", is_flag=True, help="Drop them. Without it, only show what would be dropped.")
@store_options
@settings_option
@json_option
def expire(
    days: int | None,
    execute: bool,
    store: str,
    store_path: Path | None,
    cassandra: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Drop days and rows that are older than `retention.*` in the settings allows."""
    choice = store_choice(store, store_path, cassandra)
    with extras_installed():
        from ottla.pipeline.detection.thresholds import ThresholdError
        from ottla.pipeline.retention import expire as carry_out
        from ottla.pipeline.retention import plan_expiry, retention_limits, trim
        from ottla.pipeline.trimming import TrimRules, plan_trims
    try:
        settings = loaded_settings(config)
        limits, rules = retention_limits(settings), TrimRules.of(settings)
    except ThresholdError as error:
        raise click.ClickException(str(error)) from error
    now_ms = int(time.time() * 1000)
    with opened_store(choice) as opened:
        if days is not None:
            plan = plan_expiry(opened, {name: days for name in TABLES if name not in SERVING_TABLES})
            trims = []
        else:
            plan, trims = plan_expiry(opened, limits), plan_trims(opened, rules, now_ms=now_ms)
        if execute:
            carry_out(opened, plan, now_ms=now_ms)
            trim(opened, trims, now_ms=now_ms)
    if as_json:
        rows = [{**each._asdict(), "rows": None} for each in plan]
        rows += [
            {"table": each.table, "before_day": _day(each.before_ms), "days": [], "rows": len(each.keys)}
            for each in trims
        ]
        print_json([{**each, "dropped": execute} for each in rows])
        return
    heads = ("table", number("days"), number("rows"), "before")
    print_table(
        heads,
        [(each.table, len(each.days), "all", each.before_day) for each in plan]
        + [(each.table, "", len(each.keys), _day(each.before_ms)) for each in trims],
    )
    say("dropped" if execute else "nothing was dropped; add --execute to drop them")


def _day(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d")


def _table_named(name: str) -> Table:
    if name not in TABLES:
        raise click.UsageError(f"there is no table {name}{nearest(name, TABLES)}; known are {', '.join(TABLES)}")
    return TABLES[name]


def _order(table: Table, text: str | None) -> "list[Order]":
    from ottla.pipeline.viewing.conditions import BadCondition, column_of
    from ottla.pipeline.viewing.table_view import Order

    order = []
    for item in text.split(",") if text else ():
        name, _, direction = item.strip().partition(":")
        if direction not in ("", "asc", "desc"):
            raise BadCondition(f"{item!r}: an order is COLUMN, COLUMN:asc or COLUMN:desc")
        order.append(Order(column_of(table, name), is_descending=direction == "desc"))
    return order


def _show_tables(store: "Store", as_json: bool) -> None:
    rows = []
    for name in store.tables():
        if name in TABLES:
            count = sum(batch.num_rows for batch in store.scan(name, columns=[TABLES[name].key[-1]]))
            rows.append({"table": name, "kind": "serving" if name in SERVING_TABLES else "log", "rows": count})
    if as_json:
        print_json(rows)
    else:
        print_table(("table", "kind", number("rows")), [tuple(row.values()) for row in rows])
