"""Values show themselves once it is registered how, and are harmless before."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from easeml_meter import showing
from easeml_meter.showing import Look, Shown, register


@dataclass(frozen=True, repr=False)
class Fruit(Shown):
    name: str


class Apple(Fruit):
    pass


def test_a_kind_without_a_look_is_named() -> None:
    assert repr(Fruit("pear")) == str(Fruit("pear")) == Fruit("pear").__rich__() == "<Fruit>"
    assert Fruit("pear")._repr_html_() is None


def test_a_look_holds_for_subclasses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "_LOOKS", {})
    register(Fruit, Look(lambda it: it.name, lambda it: f"a {it.name}", lambda it: f"<b>{it.name}"))
    fruit = Apple("apple")
    assert (repr(fruit), str(fruit), fruit._repr_html_()) == ("<apple>", "a apple", "<b>apple")
    assert fruit.__rich__() == "a apple"
