"""pytest in a directory and a process of its own, with our plugin as an installation has it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path


def pytest_apart(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    installed = entry_points(group="pytest11", name="sexton")
    plugin = [] if installed else ["-p", "sexton.testing.plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTEST_ADDOPTS": ""}  # whoever runs us may want another voice
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
