"""`python -m bench`: the cases beside Apache Kafka or an earlier Ottla, in one run. `--help` lists the options."""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import report
from bench.admin_cases import Scrape, admin_cases
from bench.cassandra_cases import cassandra_cases
from bench.client_cases import client_cases
from bench.cluster_cases import cluster_cases
from bench.compiling import CompilerMissingError, compiled
from bench.detection_cases import detection_cases
from bench.group_cases import group_cases, own_group_cases, warm_up_groups
from bench.model import EARLIER, OURS, THEIRS, Case, Metric, Row
from bench.own_cases import own_cases
from bench.peers import Peer, use_earlier
from bench.pipeline_cases import pipeline_cases
from bench.pipeline_memory import memory_cases
from bench.process_cases import CleanStart, Start, Sustained
from bench.races import run_race
from bench.raw_cases import raw_cases, warm_up
from bench.rival_cases import rival_cases
from bench.runner import rival_among, run_case
from bench.signals import ended_by_signals
from bench.spark_cases import spark_cases
from interop.kafka_jars import PeerMissingError, jars_dir, java_command

_RESULTS_DIR = Path(__file__).with_name("results")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Speed of Ottla beside Apache Kafka, in one run.")
    parser.add_argument("--only", default="", help="cases to run, separated by commas; a prefix is enough")
    parser.add_argument("--peers", default=f"{OURS},{THEIRS}", help="which brokers (default: both)")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="beside another checkout of Ottla instead of Kafka: what has a change done to the speed of the broker",
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each case (default: 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long a raw round measures (default: 4)")
    parser.add_argument("--minutes", type=float, default=0.0, help="also watch memory under so many minutes of load")
    parser.add_argument(
        "--live-minutes", type=float, default=10.0, help="how long the pipeline runs on live traffic (default: 10)"
    )
    parser.add_argument("--quick", action="store_true", help="one short round each: does it work, not how fast is it")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    parser.add_argument("--markdown", type=Path, help="also write a Markdown page, such as docs/benchmarks.md")
    parser.add_argument(
        "--plots", type=Path, help="also draw figures of the pipeline and of the controller here, such as docs"
    )
    parser.add_argument(
        "--join", type=Path, nargs="*", default=[], help="JSON of earlier runs, for the cases that this one leaves out"
    )
    parser.add_argument("--json", type=Path, help="where the JSON goes (default: bench/results/<time>.json)")
    parser.add_argument(
        "--work-dir", type=Path, help="where the brokers keep their data (default: the temporary folder)"
    )
    options = parser.parse_args(arguments)
    if options.before and options.markdown:
        parser.error("--markdown writes the page beside Kafka, so not with --before")
    if options.quick:
        options.rounds, options.seconds, options.live_minutes = 1, 1.0, 0.5
    return options


def available_peers(wanted: Sequence[str], notes: list[str]) -> list[str]:
    """The wanted peers that this machine can run; notes say what is missing for the others."""
    names = [name for name in wanted if name in (OURS, THEIRS)]
    if unknown := set(wanted) - set(names):
        sys.exit(f"bench: unknown peers {', '.join(sorted(unknown))}; known are {OURS}, {THEIRS}")
    if THEIRS in names:
        try:
            java_command()
            jars_dir()
        except PeerMissingError as missing:
            notes.append(f"without Apache Kafka, so no ratios: {missing}")
            names.remove(THEIRS)
    return names


def is_wanted(name: str, only: str) -> bool:
    return not only or any(name.startswith(prefix.strip()) for prefix in only.split(","))


def memory_row(peers: Sequence[Peer]) -> Row:
    """Resident memory of the peers that did all the work."""
    metric = Metric("RSS after everything", "MB", higher_is_better=False, goal=0.1)
    rounds = {peer.name: [peer.broker.resident_bytes() / 1e6] for peer in peers}
    rival = rival_among(peers)
    return Row("memory-after", "memory", metric.held_against(rival), rounds, {}, rival=rival)


def with_earlier(rows: list[Row], paths: Sequence[Path]) -> tuple[list[Row], list[str]]:
    """The rows in the order of earlier runs, with those of cases that were not run now; which cases these are."""
    ran = {row.case for row in rows}
    earlier: dict[str, list[Row]] = {}
    for path in paths:
        of_path: dict[str, list[Row]] = {}
        for row in report.read_json(path):
            of_path.setdefault(row.case, []).append(row)
        earlier |= of_path  # the newest comes last
    joined = [case for case in earlier if case not in ran]
    current = {case: [row for row in rows if row.case == case] for case in dict.fromkeys(row.case for row in rows)}
    return [row for case in (earlier | current).values() for row in case], joined


def loader_is_missing(notes: list[str]) -> bool:
    try:
        compiled("loader")
    except CompilerMissingError as missing:
        notes.append(f"raw cases skipped: {missing}")
        return True
    return False


def run(options: argparse.Namespace, work_dir: Path, console: Console) -> tuple[list[Row], list[str]]:
    notes: list[str] = []
    rows: list[Row] = []
    if options.before:
        try:
            use_earlier(options.before)
        except FileNotFoundError as error:
            sys.exit(f"bench: {error}")
        names = [OURS, EARLIER]
    else:
        names = available_peers([name.strip() for name in options.peers.split(",")], notes)
    no_loader = loader_is_missing(notes)
    scale = 0.1 if options.quick else 1.0
    process: list[Case] = [Start(work_dir)]
    clean_start = CleanStart(work_dir, partitions=int(1000 * max(scale, 0.2)))
    served: list[Case] = [] if no_loader else [*raw_cases(options.seconds)]
    served += client_cases(scale)
    coordinated: list[Case] = [] if no_loader else [*group_cases(options.seconds, scale)]
    coordinated += admin_cases(scale)
    sustained: list[Case] = []
    if options.minutes and not no_loader:
        sustained.append(Sustained(work_dir, minutes=options.minutes))
    beyond_brokers = OURS in names and not options.before
    races = rival_cases(work_dir, scale, has_kafka=THEIRS in names) if beyond_brokers else []
    races += spark_cases(scale) if beyond_brokers else []
    idle: list[Case] = [] if no_loader else [*own_group_cases(options.seconds, scale)]
    own: list[Case] = []
    detection = detection_cases(work_dir, scale, live_minutes=options.live_minutes) if beyond_brokers else []
    controller, clustered = cluster_cases(scale, shows_growth=bool(options.plots))
    if beyond_brokers:
        own += [Scrape(work_dir, partitions=int(5000 * max(scale, 0.1)), scrapes=20), *own_cases(work_dir)]
        own += clustered
        own += [*pipeline_cases(work_dir, scale), *cassandra_cases(work_dir, scale)]

    steady = memory_cases(work_dir, scale, minutes=options.minutes) if beyond_brokers else []

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False)

    def measure(cases: Sequence[Case], peers: Sequence[Peer], rounds: int) -> None:
        for case in cases:
            say(f"{case.name}: {case.title}")
            rows.extend(run_case(case, peers, rounds=rounds, say=say))

    def wanted(cases: Sequence[Case]) -> list[Case]:
        return [case for case in cases if is_wanted(case.name, options.only)]

    if options.list:
        for case in [*process, clean_start, *served, *coordinated, *idle, *sustained, *own, *steady, *detection]:
            say(f"{case.name:<24} {case.title}")
        for race in races:
            say(f"{race.name:<24} {race.title}")
        return rows, notes
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(name, work_dir)) for name in names]
        measure(wanted(process), peers, options.rounds)
        if wanted(served):
            for peer in peers:
                if not no_loader:
                    say(f"warming up {peer.name}")
                    warm_up(peer, scale=scale)
            measure(wanted(served), peers, options.rounds)
            rows.append(memory_row(peers))
    with contextlib.ExitStack() as stack:
        # Of their own: what thousands of topics and groups leave behind is no part of the memory after raw load.
        peers = [stack.enter_context(Peer(name, work_dir)) for name in names] if wanted(coordinated) else []
        if wanted(group_cases(options.seconds, scale)) and not no_loader:
            for peer in peers:
                say(f"warming up {peer.name}")
                warm_up_groups(peer, scale=scale)
        measure(wanted(coordinated), peers, options.rounds)
    with contextlib.ExitStack() as stack:
        fresh = [stack.enter_context(Peer(name, work_dir)) for name in names]
        measure(wanted(sustained), fresh, 1)
        measure(wanted(idle), fresh, options.rounds)
        ours = [peer for peer in fresh if peer.name == OURS]
        if ours:
            measure(wanted([clean_start]), fresh if options.before else ours, options.rounds)
            measure(wanted(own), ours, options.rounds)
            measure(wanted([*steady, *detection]), ours, 1)
    races = [race for race in races if is_wanted(race.name, options.only)]
    if races:
        with Peer(OURS, work_dir) as peer:
            for race in races:
                say(f"{race.name}: {race.title}")
                rows.extend(run_race(race, peer, rounds=options.rounds, say=say))
    points = {case.name: case.points for case in detection if case.points}
    if options.plots and points:
        from bench.pipeline_plots import write_plots

        say(f"drawn: {write_plots(options.plots, points)}")
    if options.plots and controller.points:
        from bench.controller_plots import write_controller_plot

        say(f"drawn: {write_controller_plot(options.plots, controller.points)}")
    return rows, notes


def main() -> None:
    options = parse_arguments(sys.argv[1:])
    console = Console(width=None if sys.stdout.isatty() else 150)
    started = time.strftime("%Y%m%d-%H%M%S")
    about = {} if options.list else report.machine()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=options.work_dir) as work_dir:
        rows, notes = run(options, Path(work_dir), console)
    if options.list:
        return
    if float(about["load average"]) > 0.5:
        busy = f"the machine was busy before the run (load average {about['load average']})"
        notes.append(f"{busy}: figures and ratios scatter, run it again on a quiet one")
    rows, joined = with_earlier(rows, options.join)
    if joined:
        notes.append(f"joined of several runs: {', '.join(joined)} come from earlier ones")
        fewer = dict.fromkeys(row.case for row in rows if len(row.rounds.get(OURS, ())) < options.rounds)
        notes.append(f"fewer than {options.rounds} rounds: {', '.join(fewer) or 'none'}")
    report.show(rows, notes, console)
    settings: dict[str, object] = {"rounds": options.rounds, "seconds": options.seconds, "quick": options.quick}
    report.write_json(options.json or _RESULTS_DIR / f"{started}.json", rows, notes, about=about, settings=settings)
    if options.markdown:
        report.write_markdown(options.markdown, rows, notes, about=about, rounds=options.rounds)
    if any(row.verdict() == "FAIL" for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    with ended_by_signals():
        main()
