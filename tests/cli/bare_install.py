"""What somebody sees who has installed Ottla without extras: runs each entry of a JSON list in one process.

    python -m tests.cli.bare_install ADDRESS LIBRARY…

hides these libraries. An entry on standard input is a list of arguments of `ottla`, or Python code, which knows the
ADDRESS of a broker. Prints a JSON list of what each came to.
"""

import asyncio
import contextlib
import io
import json
import sys
import traceback

ADDRESS, *LIBRARIES = sys.argv[1:]
for library in LIBRARIES:
    sys.modules[library] = None  # type: ignore[assignment]  # as if it were not installed


def outcome_of(entry: str | list[str]) -> dict[str, object]:
    from ottla.cli.main import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = main(entry) if isinstance(entry, list) else exec(entry, {"asyncio": asyncio, "ADDRESS": ADDRESS})
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is what is looked for
            kind = type(error).__name__
            return {"raised": kind, "said": str(error), "trace": traceback.format_exc()}
    return {"code": code, "said": printed.getvalue()}


if __name__ == "__main__":
    print(json.dumps([outcome_of(entry) for entry in json.load(sys.stdin)]))
