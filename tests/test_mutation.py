"""A few seeded faults are caught: a sample of what ``benchmarks/mutation.py`` measures in full."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "mutation.py"


@pytest.fixture(scope="module")
def mutation():
    spec = importlib.util.spec_from_file_location("mutation", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutation"] = module
    spec.loader.exec_module(module)
    if not module.path_of("pencil").exists():
        pytest.skip("the package is installed: its source is not beside the tests")
    return module


def test_mutants_compile_and_differ(mutation):
    everything = mutation.chosen(mutation.MODULES, None, 0)
    assert len(everything) > 300
    assert {mutant.kind for mutant in everything} == {"sign", "factor", "transpose"}
    for mutant in everything[::10]:
        source = mutation.mutated(mutant)
        compile(source, str(mutant), "exec")
        assert source != mutation.path_of(mutant.module).read_text(encoding="utf-8")


def test_arguments_name_mutants_that_exist(mutation):
    keys = {mutant.key for mutant in mutation.chosen(mutation.MODULES, None, 0)}
    for key, argument in mutation.EQUIVALENT.items():
        assert key in keys, f"{key} is no mutant any more"
        assert len(argument) > 20


SAMPLE = """
import sys
sys.path[:0] = [{folder!r}, {root!r}]
import mutation
quick = mutation.TESTS[:5]
assert mutation.run_tests(None, "", quick) == "passed", "the tests fail without any fault"
chosen = mutation.chosen(("pencil", "dyson", "linearization", "structure"), 6, 7)
for mutant in mutation.survivors(chosen, tests=quick):
    print(mutant)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forks")
def test_a_sample_is_caught(mutation):
    """At most one of six survives the quick tests: the full figure is in CONTRIBUTING.

    In a process of its own: here the package is loaded already, and would stay without the fault.
    """
    code = SAMPLE.format(folder=str(SCRIPT.parent), root=str(ROOT))
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) <= 1, result.stdout
