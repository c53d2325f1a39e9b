"""SkillOpt's trainer, its reflection scripted: a skill that only its selection set likes is out."""

# needs: skillopt==0.2.0

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from skillopt.engine import trainer
from skillopt.envs.base import EnvAdapter

from easeml_meter import Gate
from easeml_meter.integrations.loops import Keeper, skillopt_gate

EDITS = ["luck", "luck luck", "real", "luck luck luck"]


def right(skill: str, case: int) -> int:
    """Say whether a skill is right on a case; luck helps on SkillOpt's selection set alone."""
    gain = 0.25 * skill.count("real") + (0 if case >= 1000 else 0.06 * skill.count("luck"))
    return int(random.Random(str(case)).random() < 0.5 + gain)  # noqa: S311


class Scripted(EnvAdapter):  # type: ignore[misc]
    """An environment whose reflection adds the next of some words to the skill."""

    def __init__(self) -> None:
        self.words = iter(EDITS)

    def build_train_env(self, batch_size: int, seed: int, **_: Any) -> range:
        return range(batch_size)

    def build_eval_env(self, env_num: int, split: str, seed: int, **_: Any) -> range:
        return range(100, 100 + env_num)

    def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **_: Any) -> Any:
        return [
            {"id": str(at), "hard": right(skill_content, at), "soft": 0.0} for at in env_manager
        ]

    def reflect(self, results: Any, skill_content: str, out_dir: str, **_: Any) -> Any:
        edit = {"op": "append", "content": next(self.words)}
        return [{"source_type": "failure", "patch": {"edits": [edit], "reasoning": "a try"}}]

    def get_task_types(self) -> list[str]:
        return ["task"]


def main(folder: Path) -> None:
    start = folder / "skill.md"
    start.write_text("Begin.")
    config = {
        **dict.fromkeys(("optimizer_model", "target_model"), "none"),
        "out_root": str(folder / "out"),
        "skill_init": str(start),
        "seed": 1,
        "num_epochs": 1,
        "train_size": 4 * 8,
        "batch_size": 8,
        "accumulation": 1,
        "sel_env_num": 80,
        "test_env_num": 10,
        "eval_test": False,
        "merge_batch_size": 8,
        "analyst_workers": 1,
        "edit_budget": 4,
        "min_edit_budget": 4,
        "gate_metric": "hard",
        "use_slow_update": False,
        "use_meta_skill": False,
        "lr_scheduler": "constant",
    }

    def score(skill: str) -> dict[str, int]:
        return {str(case): right(skill, case) for case in range(1000, 1300)}

    keeper = Keeper(Gate(folder / "gate.jsonl", looks=20), score, start.read_text())
    trainer.evaluate_gate = skillopt_gate(keeper)
    trainer.merge_patches = lambda _, patches, *__, **___: patches[0]  # its package has no prompts
    trainer.ReflACTTrainer(config, Scripted()).train()
    status = keeper.gate.status()
    assert len(status["kept"]) == 1, status
    assert status["answers"] >= 3, status
    assert "real" in keeper.best
    assert "luck" not in keeper.best, keeper.best


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("SkillOpt: of its steps, the gate let only the real gain through")
