"""The golden fixture itself: missing, different, unused and misspelt files fail a run."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = """
def test_a(golden):
    golden.check("a.txt", "one\\n")

def test_b(golden):
    assert [path.name for path in golden.files("in/*.hir")] == ["x.hir"]
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "tests"
    (folder / "golden" / "in").mkdir(parents=True)
    shutil.copy(CONFTEST, folder)
    (folder / "test_it.py").write_text(TESTS)
    (folder / "golden" / "a.txt").write_text("one\n")
    (folder / "golden" / "in" / "x.hir").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    return tmp_path


def run(project, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_equal_files_pass_and_an_unused_one_fails_whole_runs_only(project):
    assert run(project).returncode == 0
    (project / "tests" / "golden" / "mispelt.txt").write_text("one\n")
    whole = run(project)
    assert whole.returncode == 1
    assert "golden files that no test uses" in whole.stdout
    assert "mispelt.txt" in whole.stdout
    assert run(project, "tests/test_it.py").returncode == 0
    assert run(project, "-k", "test_a").returncode == 0
    parallel = run(project, "-n", "2")
    assert parallel.returncode == 1
    assert "mispelt.txt" in parallel.stdout
    assert "a.txt" not in parallel.stdout


def test_different_and_missing_files_fail_until_they_are_rewritten(project):
    path = project / "tests" / "golden" / "a.txt"
    path.write_text("two\n")
    different = run(project)
    assert different.returncode == 1
    assert "-two" in different.stdout
    assert "+one" in different.stdout
    path.unlink()
    missing = run(project)
    assert missing.returncode == 1
    assert "is missing: run pytest --update-golden" in missing.stdout
    assert run(project, "--update-golden").returncode == 0
    assert path.read_text() == "one\n"
    assert run(project).returncode == 0
