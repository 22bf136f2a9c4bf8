"""`ottla serve`: one broker in this process, until SIGTERM or Ctrl-C."""

import gc
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import click

from ottla.cli.process_log import start_logging
from ottla.core.config.config import BrokerConfig
from ottla.core.config.definition import ConfigError
from ottla.core.config.operating_keys import LOG_LEVELS, parse_logger_level
from ottla.core.config.properties import apply_overrides, parse_properties

_DEFAULT_LISTEN = "127.0.0.1:9092"


@click.command("serve")
@click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False), help="Read a server.properties file."
)
@click.option("--data-dir", help="The folder of the log (log.dirs).")
@click.option("--listen", help=f"Listen on HOST:PORT; port 0 picks a free one. Default {_DEFAULT_LISTEN}.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key, whatever the file says; may be repeated.",
)
@click.option("--ready-file", type=click.Path(dir_okay=False), help="Holds host:port while clients can connect.")
@click.option("--metrics-listen", metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz over HTTP.")
@click.option("--log-format", type=click.Choice(["human", "json"]), help="Format of the log on standard error.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS, case_sensitive=False), help="Log this level and above.")
@click.option("-v", "--verbose", is_flag=True, help="The same as --log-level DEBUG.")
def serve(
    config_file: str | None,
    data_dir: str | None,
    listen: str | None,
    overrides: tuple[str, ...],
    ready_file: str | None,
    metrics_listen: str | None,
    log_format: str | None,
    log_level: str | None,
    verbose: bool,
) -> int:
    """Run a broker until Ctrl-C or SIGTERM. It needs no ZooKeeper and no other process."""
    ready = None if ready_file is None else ReadyFile(ready_file)
    if ready is not None:
        ready.clear()
    flags = {
        "ottla.metrics.listen": metrics_listen,
        "ottla.logging.format": log_format,
        "ottla.logging.level": log_level or ("DEBUG" if verbose else None),
    }
    given = {name: value for name, value in flags.items() if value is not None}
    config = _load_config(config_file, data_dir, listen, overrides, given)
    start_logging(
        log_format=config.get_str("ottla.logging.format"),
        level=config.get_str("ottla.logging.level"),
        levels=map(parse_logger_level, config.get_list("ottla.logging.levels")),
    )
    if ready is None:
        return run(config, None)
    ready.check()
    try:
        return run(config, ready)
    finally:
        ready.clear()


class ReadyFile:
    """Has host:port while clients can connect, and is not there at any other time.

    `clear` first of all: a killed broker leaves its file, and whoever waits for one would believe it. `write` when
    clients can connect, `clear` when they can't any more.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._unfinished = path + ".tmp"

    def clear(self) -> None:
        for path in (self._path, self._unfinished):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise click.ClickException(f"ready file {self._path}: {error.strerror}") from error

    def check(self) -> None:
        """Checks that it can be written, before the broker starts."""
        try:
            os.close(os.open(self._unfinished, os.O_WRONLY | os.O_CREAT, 0o644))
        except OSError as error:
            raise click.ClickException(f"ready file {self._path} can't be written: {error.strerror}") from error

    def write(self, address: str) -> None:
        """Atomically: whoever waits for the file never reads half an address."""
        with open(self._unfinished, "w", encoding="utf-8") as file:
            file.write(address + "\n")
        os.replace(self._unfinished, self._path)


def run(config: BrokerConfig, ready: ReadyFile | None) -> int:
    """Serve until a signal; returns the exit code."""
    import uvloop  # late: a wrong flag is reported without it

    from ottla.broker.broker import Broker, StartFailed

    async def main() -> int:
        import asyncio

        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        gc.disable()  # a start makes no garbage; with many partitions the collector would walk it for nothing
        broker = Broker(config, loop)
        try:
            await broker.start()
        except StartFailed as error:
            raise click.ClickException(str(error)) from error
        _calm_garbage_collector()
        core = broker.core
        print(f"ottla: broker {core.broker_id} of cluster {core.cluster_id} listens on {core.address}", flush=True)
        if broker.metrics_address is not None:
            print(f"ottla: metrics on http://{broker.metrics_address}/metrics", flush=True)
        if ready is not None:  # last: whoever waits for it finds all lines printed
            ready.write(core.address)
        fatal = asyncio.ensure_future(broker.failed.wait())
        stop = asyncio.ensure_future(stopping.wait())
        await asyncio.wait((fatal, stop), return_when=asyncio.FIRST_COMPLETED)
        for waiting in (fatal, stop):
            waiting.cancel()
        await broker.stop()
        return 1 if broker.failed.is_set() else 0

    return uvloop.run(main())


def _calm_garbage_collector() -> None:
    """Objects of the start stay: the collector needn't walk them again and again, for milliseconds each time.

    Requests leave almost no cycles, so the collector checks young objects less often than by default.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    gc.enable()


def _load_config(
    config_file: str | None,
    data_dir: str | None,
    listen: str | None,
    overrides: tuple[str, ...],
    flags: Mapping[str, str],
) -> BrokerConfig:
    properties: dict[str, str] = {}
    try:
        if config_file is not None:
            properties.update(parse_properties(Path(config_file).read_bytes()))
        if data_dir is not None:
            properties.pop("log.dir", None)
            properties["log.dirs"] = data_dir
        if listen is not None or "listeners" not in properties:
            properties["listeners"] = f"PLAINTEXT://{listen or _DEFAULT_LISTEN}"
        properties.update(flags)
        return BrokerConfig.parse(apply_overrides(properties, overrides))
    except (ConfigError, ValueError) as error:
        raise click.UsageError(f"{config_file or 'command line'}: {error}") from error
