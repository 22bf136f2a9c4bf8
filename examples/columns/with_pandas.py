"""Orders per minute of a topic, with pandas. Usage: with_pandas.py HOST:PORT TOPIC; values are JSON."""

import json
import sys

import ottla.columns


def main(bootstrap_servers: str, topic: str) -> None:
    frame = ottla.columns.read(topic, bootstrap_servers=bootstrap_servers).to_pandas()
    frame["amount"] = frame["value"].map(lambda value: json.loads(value)["amount"])
    print(frame.set_index("timestamp").resample("1min")["amount"].agg(["count", "sum"]).to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
