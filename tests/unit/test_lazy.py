"""Lazy modules: loaded at first use, once, whole for every thread."""

import importlib
import subprocess
import sys
import threading
from types import ModuleType

import pytest

from hetir.lazy import lazy

SLOW = """
import time
ran = globals().get("ran", 0) + 1
early = 1
time.sleep(0.2)
import {package}.slow as me
assert me.early == 1
late = 2
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    name = f"lazy_{tmp_path.name}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "slow.py").write_text(SLOW.format(package=name))
    (folder / "broken.py").write_text("raise ValueError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for known in [known for known in sys.modules if known.startswith(name)]:
        del sys.modules[known]


def test_threads_that_come_while_it_loads_see_all_of_it(package):
    module = lazy(f"{package}.slow")
    assert "late" not in object.__getattribute__(module, "__dict__")
    start, seen = threading.Barrier(16), []

    def use():
        start.wait()
        seen.append((module.late, module.ran))

    threads = [threading.Thread(target=use) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a deadlock"
    assert seen == [(2, 1)] * 16
    assert type(module) is ModuleType
    assert lazy(f"{package}.slow") is module


def test_a_module_of_a_package_that_waits_is_loaded_once(package, tmp_path):
    folder = tmp_path / package / "inner"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import user\n")
    (folder / "user.py").write_text("from . import part\n")
    (folder / "part.py").write_text("class Part: pass\n")
    waits = lazy(f"{package}.inner")
    part = importlib.import_module(f"{package}.inner.part")
    assert waits.user.part is part is sys.modules[f"{package}.inner.part"]
    assert waits.user.part.Part is part.Part


def test_what_fails_to_load_fails_at_each_use(package):
    module = lazy(f"{package}.broken")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            _ = module.anything
    with pytest.raises(ModuleNotFoundError):
        lazy(f"{package}.missing")


def test_backends_are_not_loaded_before_they_are_used():
    code = (
        "import sys, hetir; hetir.devices; from hetir import compiler\n"
        "used = lambda: print('hetir.backends.cpu.emit' in sys.modules)\n"
        "used(); compiler.cpu.compile_kernel; used()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
