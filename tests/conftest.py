"""Golden files: plain pytest compares them, `--update-golden` rewrites them.

A file under tests/golden that no test asked for fails the run when the whole suite ran.
"""

import difflib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "golden"
# for helpers, `from tests.unit.x import y`; last, so that the installed hetir is what is tested
sys.path.append(str(Path(__file__).parents[1]))


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


class Golden:
    """Compares texts with the files under `root`; remembers which were asked for."""

    def __init__(self, root, *, update):
        self.root, self.update = root, update
        self.used = set()

    def check(self, name, actual):
        """Fail with a diff unless the file `name` holds exactly `actual`."""
        path = self.root / name
        self.used.add(path)
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} is missing: run pytest --update-golden")
        expected = path.read_text(encoding="utf-8")
        if actual != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), actual.splitlines(), str(path), "actual", lineterm=""
            )
            pytest.fail("\n".join(lines) or "the files differ in line ends only")

    def files(self, pattern):
        """The files that are themselves the input of tests, such as `passes/*.hir`."""
        found = sorted(self.root.glob(pattern))
        self.used.update(found)
        return found

    def unused(self):
        """What no test asked for: a leftover or a misspelt name."""
        present = {path for path in self.root.rglob("*") if path.is_file()}
        return sorted(present - self.used)


GOLDEN = pytest.StashKey[Golden]()


def pytest_configure(config):
    config.stash[GOLDEN] = Golden(ROOT, update=config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def golden(request):
    return request.config.stash[GOLDEN]


def _used_by_workers(config):
    return config.stash.setdefault(WORKERS, set())


WORKERS = pytest.StashKey[set[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Collect what each worker of pytest-xdist used."""
    del error
    _used_by_workers(node.config).update(getattr(node, "workeroutput", {}).get("golden", ()))


def pytest_sessionfinish(session, exitstatus):
    config = session.config
    golden = config.stash[GOLDEN]
    if hasattr(config, "workeroutput"):
        config.workeroutput["golden"] = [str(path) for path in golden.used]
        return
    golden.used.update(map(Path, _used_by_workers(config)))
    if exitstatus != 0 or not ran_everything(config) or golden.update:
        return
    unused = golden.unused()
    if unused:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        names = "\n".join(f"  {path}" for path in unused)
        config.get_terminal_writer().line(f"golden files that no test uses:\n{names}", red=True)


def ran_everything(config):
    """Whether no test was left out by a path, a keyword or a marker given by hand."""
    option = config.option
    everything = not option.keyword and option.markexpr in ("", "not slow")
    return everything and not option.collectonly and config.args_source.name != "ARGS"
