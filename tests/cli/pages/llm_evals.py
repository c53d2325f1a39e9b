"""Write the files of docs/llm-evals.md to this folder: ids, and logs of an evaluation by Inspect.

python tests/cli/pages/llm_evals.py
"""

from __future__ import annotations

import copy
import json
import random
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "llm-evals.md"
RECORDED = ROOT / "tests" / "integrations" / "artefacts" / "inspect" / "hidden.json"


def write(folder: str, ids: list[str], right: float, seed: int) -> None:
    """Write a log as Inspect does, of a model that is right so often."""
    draw = random.Random(seed)  # noqa: S311  data, no secrets
    log = copy.deepcopy(json.loads(RECORDED.read_text(encoding="utf-8")))
    log["eval"]["dataset"]["sample_ids"] = ids
    log["results"] |= {"total_samples": len(ids), "completed_samples": len(ids)}
    log["reductions"][0]["samples"] = [
        {"sample_id": each, "value": float(draw.random() < right)} for each in ids
    ]
    Path(folder).mkdir(exist_ok=True)
    name = "hidden" if folder == "private" else "dev"
    Path(folder, f"{name}.json").write_text(json.dumps(log), encoding="utf-8")
    Path(folder, f"{name}-ids.csv").write_text("id\n" + "\n".join(ids), encoding="utf-8")


def main() -> None:
    """Write all of them."""
    toml = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    Path("meter.toml").write_text(toml[0], encoding="utf-8")
    write("private", [f"h{at}" for at in range(300)], 0.7, 1)
    write("logs", [f"d{at}" for at in range(150)], 0.75, 2)


if __name__ == "__main__":
    main()
