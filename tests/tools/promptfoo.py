"""promptfoo with a provider of our own, installed by npm into the folder `out/integrations`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from easeml_meter import Meter, MeterSpec
from easeml_meter.integrations.reading import read_both

VERSION = "0.121.20"
HOME = Path("out/integrations/promptfoo/node").absolute()
PROVIDER = """\
module.exports = class {
  id() { return 'numbers'; }
  async callApi(prompt) {
    const number = parseInt(prompt.split(' ').pop());
    if (number % 10 === 3) throw new Error('the tool broke');
    return { output: number % 5 === 0 ? 'nothing' : `It is ${number}.` };
  }
};
"""


def installed() -> Path:
    """Return the program, installed if it is not there yet."""
    program = HOME / "node_modules" / ".bin" / "promptfoo"
    if not program.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        (HOME / "package.json").write_text("{}")
        npm = shutil.which("npm")
        assert npm, "npm is needed"
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        subprocess.run([npm, "install", *options, f"promptfoo@{VERSION}"], cwd=HOME, check=True)
    return program


def main(folder: Path) -> None:
    program = installed()
    (folder / "provider.js").write_text(PROVIDER)
    quiet = {
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
        "PROMPTFOO_CONFIG_DIR": str(folder / "home"),
    }
    for name, count in (("hidden", 150), ("dev", 60)):
        ids = [f"{name[0]}{at}" for at in range(count)]
        (folder / f"{name}.csv").write_text("id\n" + "\n".join(ids))
        tests = [
            {
                "vars": {"n": str(at)},
                "metadata": {"id": each},
                "assert": [{"type": "contains", "value": str(at), "metric": "says it"}],
            }
            for at, each in enumerate(ids)
        ]
        config = {"prompts": ["Say {{n}}"], "providers": ["file://provider.js"], "tests": tests}
        (folder / f"{name}.config.json").write_text(json.dumps(config))
        command = [str(program), "eval", "-c", f"{name}.config.json", "-o", f"{name}.json"]
        command += ["--no-cache", "--no-table", "--no-progress-bar"]
        done = subprocess.run(
            command, cwd=folder, env=os.environ | quiet, capture_output=True, check=False
        )
        assert done.returncode == 100, done.stdout  # assertions failed, as they should

    settings = {"edges": [0.4], "tolerance": 0.2, "steps": 2, "delta": 0.1}
    spec = MeterSpec.uniform(**settings, loss="score[0-1]", metric="says it")  # type: ignore[arg-type]
    meter = Meter.create(folder / "meter", spec)
    meter.seal(folder / "hidden.csv", folder / "t.sealed", id_column="id")
    meter.add_test_set(folder / "t.sealed")
    meter.set_validation(folder / "dev.csv", id_column="id")
    files = read_both("promptfoo", folder / "hidden.json", folder / "dev.json", spec)
    signal = meter.submit_any(files, model="numbers")
    assert signal.band == 1
    assert signal.validation_loss is not None
    assert abs(signal.validation_loss - 0.3) < 1e-9  # a fifth is wrong, a tenth fails


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("promptfoo: scores got an answer; errors counted")
