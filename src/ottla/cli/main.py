"""The `ottla` command: finds its subcommands, and turns their outcomes into exit codes.

A broker must start quickly, so a subcommand's module is imported only when it is called.
"""

import os
import sys
from collections.abc import Sequence

import click

from ottla import __version__
from ottla.cli.lazy_group import LazyGroup

EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count

# Name -> (the click command, its help line).
COMMANDS = {
    "completion": ("ottla.cli.completion:completion", "Print a shell's completion script."),
    "configs": ("ottla.cli.configs:configs", "Describe and alter the configuration of topics and brokers."),
    "consume": ("ottla.cli.consume:consume", "Read records from topics and print them."),
    "dump-log": ("ottla.cli.dump_log:dump_log", "Print and check segments, indexes and other log files."),
    "groups": ("ottla.cli.groups:groups", "Show and delete consumer groups; reset their offsets."),
    "perf": ("ottla.cli.perf:perf", "Measure how fast a cluster takes and delivers records."),
    "pipeline": ("ottla.cli.pipeline:pipeline", "Run Spark jobs on an app's events, and show their results."),
    "produce": ("ottla.cli.produce:produce", "Send lines, files or JSON lines to a topic."),
    "serve": ("ottla.cli.serve:serve", "Run a broker."),
    "store": ("ottla.cli.store:store", "Show the embedded coordination store of a broker."),
    "topics": ("ottla.cli.topics:topics", "Create, list, describe, alter and delete topics."),
}


@click.command(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ottla")
def cli() -> None:
    """Ottla, a message broker that speaks the Kafka protocol, and tools for any Kafka cluster."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        result = cli.main(
            args=list(arguments) if arguments is not None else None, prog_name="ottla", standalone_mode=False
        )
        sys.stdout.flush()  # here, where a reader that has gone can still be dealt with
    except click.ClickException as error:  # a UsageError has exit code 2, others 1
        error.show()
        return error.exit_code
    except ModuleNotFoundError as error:
        from ottla.core.extras import ExtraMissing

        if not isinstance(error, ExtraMissing):
            raise
        click.ClickException(str(error)).show()
        return 1
    except (click.Abort, KeyboardInterrupt):  # click makes an Abort of a KeyboardInterrupt
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough, as in `| head`; output that Python still buffers must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
