"""`hetir devices`: complete on a machine with nothing but a CPU, and JSON of a known form."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.runtime import DriverAbsentError, LaunchTimeoutError
from hetir.runtime.registry import Registry

ROOT = Path(__file__).parents[2]
BARE = """
import sys
sys.modules["pyopencl"] = None
from hetir.runtime.drivers import vulkan_api
vulkan_api.LIBRARY = "libno-such-vulkan.so.1"
from hetir.cli.main import main
main()
"""
FORM = {
    "schema": int,
    "name": str,
    "driver": str,
    "title": str,
    "vendor": str,
    "host_memory": bool,
    "memory_bytes": (int, type(None)),
    "units": (int, type(None)),
    "emulated": bool,
    "targets": list,
    "features": list,
    "limits": dict,
    "health": dict,
    "link": (dict, type(None)),
}


def bare(*arguments, **environment):
    """The command on a machine without any vendor's library."""
    absent = {"HETIR_LIBCUDA": "libno-such-cuda.so.1", "HETIR_LIBASCENDCL": "libno-such-acl.so"}
    done = subprocess.run(
        [sys.executable, "-c", BARE, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **absent, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_with_nothing_but_a_cpu_every_driver_has_its_line():
    shown = json.loads(bare("devices", "--json"))
    real = [d["name"] for d in shown["devices"] if not d["emulated"]]
    assert real == ["cpu"]
    assert {d["name"] for d in shown["devices"]} >= {"cpu", "emulator", "ptx-emulator"}
    gaps = {gap["driver"]: gap for gap in shown["absent"]}
    assert set(gaps) >= {"cuda", "opencl", "vulkan", "ascend"}
    for gap in gaps.values():
        assert gap["reason"]
        assert gap["remedy"]
    assert "install" in gaps["cuda"]["remedy"]
    assert "pip install" in gaps["opencl"]["remedy"]
    assert "apt install" in gaps["vulkan"]["remedy"]
    assert "CANN" in gaps["ascend"]["remedy"]
    text = bare("devices")
    for gap in gaps.values():
        assert gap["driver"] in text
        assert " ".join(gap["reason"].split()[:4]) in text


def test_portraits_have_the_documented_form():
    for device in hetir.devices():
        shown = json.loads(json.dumps(device.to_json()))
        assert list(shown) == list(FORM)
        for name, kind in FORM.items():
            assert isinstance(shown[name], kind), name
        assert shown["schema"] == 1
    documented = (ROOT / "docs" / "runtime.md").read_text()
    for name in FORM:
        assert f"| `{name}` |" in documented, name


@pytest.mark.parametrize(
    "error", [DriverAbsentError("old", "newer"), OSError("broken"), KeyError(7)]
)
def test_a_driver_that_fails_in_any_way_is_a_line(error):
    def probe():
        raise error

    registry = Registry()
    registry.register("odd", probe)
    assert registry.devices() == ()
    (gap,) = [gap for gap in registry.absent() if gap.driver == "odd"]
    assert gap.reason
    assert gap.remedy


def test_links_are_measured_on_request():
    shown = json.loads(bare("devices", "--json", "--links"))
    links = {d["name"]: d["link"] for d in shown["devices"]}
    assert all(value > 0 for link in links.values() for value in link.values())
    assert set(links["cpu"]) == {
        "upload_bytes_per_second",
        "download_bytes_per_second",
        "latency_seconds",
    }
    device = hetir.device("ptx-emulator")
    assert device.link() is device.link()
    assert "GiB/s" in bare("devices", "--links")


def test_health_counts_what_failed_and_what_hung():
    @hetir.kernel
    def forever(x: hl.Array[hl.i32, 1]):
        while hl.atomic_load(x, 0) == 0:
            pass

    device = hetir.device("cpu")
    before = device.to_json()["health"]
    x = np.zeros(1, np.int32)
    with pytest.raises(LaunchTimeoutError):
        forever.launch((x,), grid=1, workgroup=1).wait(timeout=0.05)
    after = device.to_json()["health"]
    assert after == {**before, "given_up": before["given_up"] + 1}
    x[0] = 1
    forever[1, 1](x)
