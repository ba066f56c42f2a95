"""Do a run's trajectories satisfy Harbor's own ATIF model?

    python bench/atif.py RUN_DIR

Makes an environment with Python >= 3.12 and Harbor in a temporary folder (uv finds or is told the
interpreter: UV_PYTHON), and validates every trajectory.json below RUN_DIR there.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

VALIDATE = """
import json, sys
from pathlib import Path
from harbor.models.trajectories import Trajectory
paths = sorted(Path(sys.argv[1]).rglob("trajectory.json"))
for path in paths:
    Trajectory.model_validate(json.loads(path.read_text()))
print(f"{len(paths)} trajectories are valid ATIF")
raise SystemExit(not paths)
"""


def main() -> None:
    run_dir = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin/python"
        version = os.environ.get("UV_PYTHON", ">=3.12")
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--python", version, "--clear", folder], check=True)
        install = [*uv, "pip", "install", "--quiet", "--python", str(python), "harbor"]
        subprocess.run(install, check=True)
        subprocess.run([python, "-c", VALIDATE, run_dir], check=True)


if __name__ == "__main__":
    main()
