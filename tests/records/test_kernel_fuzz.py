"""The kernel under the address and undefined-behaviour sanitizers: its plain C with damaged input, its types with
strange calls.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL_DIR = HERE.parents[1] / "src" / "ottla" / "records"
ROUNDS = 30_000
FLAGS = ["-g", "-O1", "-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    target = tmp_path_factory.mktemp("fuzz") / "kernel_fuzz"
    command = [compiler, *FLAGS, f"-I{KERNEL_DIR}", str(HERE / "kernel_fuzz.c"), "-o", str(target)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr:
        pytest.skip(f"no sanitizer libraries: {built.stderr[-200:]}")
    assert built.returncode == 0, built.stderr
    return target


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_batches_and_columns_never_lead_out_of_their_memory(fuzzer: Path, seed: int):
    done = subprocess.run([fuzzer, str(ROUNDS), str(seed)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{ROUNDS} rounds" in done.stdout


@pytest.fixture(scope="module")
def sanitized_extension(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The extension built with sanitizers, and the library to load before Python for it."""
    compiler = shutil.which("gcc")
    headers = Path(sysconfig.get_paths()["include"])
    if compiler is None or not (headers / "Python.h").is_file():
        pytest.skip("no gcc, or no Python.h")
    runtime = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    library = runtime.stdout.strip()
    if not Path(library).is_file():
        pytest.skip("no sanitizer libraries")
    target = tmp_path_factory.mktemp("fuzz") / "_kernel.abi3.so"
    command = [compiler, *FLAGS, "-fPIC", "-shared", f"-I{headers}", str(KERNEL_DIR / "_kernel.c"), "-o", str(target)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return target, library


@pytest.mark.slow
@pytest.mark.process
def test_strange_calls_to_the_gate_and_to_appenders_stay_within_their_memory(
    sanitized_extension: tuple[Path, str],
) -> None:
    extension, library = sanitized_extension
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself ends with memory in its hands
        "PYTHONMALLOC": "malloc",  # so that every object has borders that are watched
    }
    command = [sys.executable, str(HERE / "kernel_objects_fuzz.py"), str(extension), "1500", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "1500 rounds" in done.stdout
