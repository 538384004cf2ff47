"""The script for machines with a GPU works: it runs here on the PTX emulator, in small sizes."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "device" / "nvidia.py"


def test_the_device_script_passes_on_the_emulator(tmp_path):
    out = tmp_path / "device.json"
    command = [sys.executable, SCRIPT, "--device", "ptx-emulator", "--small", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["device"] == "the PTX emulator"
    assert found["failures"] == []
    assert {"checkpoints", "graphs", "grid barrier", "bandwidth"} <= set(found["checks"])
    assert all(value > 0 for value in found["numbers"].values())
    assert {"vector_add GB/s", "launch us", "error sin"} <= set(found["numbers"])
