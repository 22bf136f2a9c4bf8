"""The plain C half of the kernel under the address and undefined-behaviour sanitizers, with damaged input."""

import shutil
import subprocess
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
