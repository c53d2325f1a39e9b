"""The form for a new meter: every setting a field, with the plan and a picture as one types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Query, Response

from easeml_meter import checks
from easeml_meter.conditions import ALARM
from easeml_meter.core.questions.labels import (
    Way,
    from_tables,
    other_ways,
    plan_alarm,
    with_validation,
)
from easeml_meter.core.questions.planning import Plan, labels_needed, plan_of
from easeml_meter.corpus import KINDS, WEIGHTED, Corpus
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.meter import read_tables
from easeml_meter.report.bands import bands_svg
from easeml_meter.server.limits import PlannerCounted
from easeml_meter.server.web.pages import Visit, VisitHere, fill, show_forms
from easeml_meter.server.web.planner import DEFAULTS as PLANNED
from easeml_meter.server.web.planner import (
    BandFields,
    beside,
    optional_share,
    optional_whole,
    plan_asked,
    read_delta,
    read_steps,
    read_tenants,
)
from easeml_meter.service import meters
from easeml_meter.service.actor import permit
from easeml_meter.spec import GAP, METERS, Gap, MeterSpec, classes_of

router = APIRouter(include_in_schema=False)

_LONGEST_TOML = 100_000
_LONGEST = 2_000
_MORE = "meter.toml takes more"

DEFAULTS = {
    "name": "",
    "asks": ALARM,
    "labels": PLANNED["labels"],
    "steps": PLANNED["steps"],
    "confidence": PLANNED["confidence"],
    "validation": "",
    "tolerance": "",
    "edges": "",
    "signals": "",
    "protocol": str(METERS[0]),
    "gap": str(Gap.ABSOLUTE),
    "condition": "n > 0.8 +/- 0.02",
    "passes": "",
    "disagreement": "",
    "on_demand": "",
    "loss": "0-1",
    "other_loss": "",
    "metric": "",
    "classes": "",
    "inputs": "hidden",
    "models": "",
    "ceiling": "",
    "drawn": "",
    "tenants": "",
    "handover": "",
    "positive": "",
    "floor": "",
    "rows": "",
    "tries": "",
    "window": "",
    "submissions": "",
    "top_up": "",
    "judge_error": "",
    "pool": "",
    "clusters": "",
}
"""The fields and what they hold at first; those of the planner have the same names."""

LOSSES = {
    "0-1": "Wrong or right: the share of wrong classes",
    "brier": "Probabilities of classes (Brier score)",
    "absolute[0,1]": "A number from 0 to 1: absolute error",
    "squared[0,1]": "A number from 0 to 1: squared error",
    "score": "A score from 0 to 1 that a runner measures elsewhere",
    "score[0-1]": "Solved or not, as a runner measures elsewhere",
}
"""The usual losses, as people choose them."""
SCORES = {
    name: f"{kind.word[0].upper()}{kind.word[1:]}{'' if kind.averaged else ' of one class'}"
    for name, kind in KINDS.items()
    if name != WEIGHTED  # with its weights, it is written as another loss
}
"""Scores of a whole test set, as people choose them."""
OTHER = "other"
_PLANNER_LOSSES = {"absolute": "absolute[0,1]", "squared": "squared[0,1]"}
_WITHOUT_CLASSES = ("score", "absolute", "squared")
_CONDITION, _LADDER = "condition", "better"
ASKS = (ALARM, GAP, _CONDITION, _LADDER)
_MODELS: dict[str, bool | str] = {"": False, "onnx": "onnx", "true": True, "1": True}


@dataclass(frozen=True)
class MeterDraft:
    """A meter that somebody is about to make."""

    fields: Mapping[str, str]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> MeterDraft:
        """Return what was typed; without any input, an example.

        What a planner's link leaves out is empty, and so is a box that the browser does not send.
        """
        if not any(name in given for name in DEFAULTS):
            return cls(dict(DEFAULTS))
        bare = dict.fromkeys(DEFAULTS, "") | {
            name: DEFAULTS[name] for name in ("loss", "inputs", "protocol", "gap")
        }
        bare["asks"] = GAP  # a link that does not say is of bands
        fields = bare | {name: given[name].strip()[:_LONGEST] for name in bare if given.get(name)}
        loss = _PLANNER_LOSSES.get(fields["loss"], fields["loss"])
        score = Corpus.parse(loss)
        if score is not None and score.name in SCORES:
            loss, fields["positive"] = score.name, score.positive or fields["positive"]
        if loss not in (*LOSSES, *SCORES, OTHER):
            fields["other_loss"], loss = loss, OTHER
        return cls(fields | {"loss": loss})

    @property
    def spec(self) -> MeterSpec:
        """The meter that was described."""
        asked = self.fields
        steps, delta = read_steps(asked, _MORE), read_delta(asked)
        loss = self._loss
        scored = loss.startswith("score")
        shared: dict[str, Any] = {
            "steps": steps,
            "delta": delta,
            "loss": loss,
            # What the page hides for this loss may still hold what was typed before.
            "metric": asked["metric"] if scored else "",
            "classes": () if loss.startswith(_WITHOUT_CLASSES) else classes_of(asked["classes"]),
            "inputs": asked["inputs"],
            "models": self._models,
            "tenants": read_tenants(asked),
            "handover": bool(asked["handover"]),
            "clusters": bool(asked["clusters"]),
        }
        if asked["asks"] not in ASKS:
            raise invalid("asks", asked["asks"], f"one of {', '.join(ASKS)}")
        if asked["asks"] == ALARM:
            labels = checks.read_whole("labels", asked["labels"])
            return plan_alarm(labels, **shared).spec
        return self._gap(shared) if asked["asks"] == GAP else self._condition(shared)

    @property
    def _loss(self) -> str:
        asked = self.fields
        if asked["loss"] == OTHER:
            return asked["other_loss"]
        if asked["loss"] in KINDS and not KINDS[asked["loss"]].averaged:
            return f"{asked['loss']}[{asked['positive']}]" if asked["positive"] else asked["loss"]
        return asked["loss"]

    @property
    def _models(self) -> bool | str:
        given = self.fields["models"]
        if given not in _MODELS:
            raise invalid("models", given, "one of onnx, true, or nothing")
        return _MODELS[given]

    def _gap(self, shared: dict[str, Any]) -> MeterSpec:
        asked, alone = self.fields, not self.fields["tolerance"]
        wish = {**asked, "tolerance": "0.1"} if alone else asked  # labels alone give the scale
        spec = MeterSpec.uniform(
            **BandFields.read(wish, "bands", _MORE).settings,
            protocol=asked["protocol"],
            gap=asked["gap"],
            ceiling=optional_share(asked, "ceiling"),
            drawn=optional_share(asked, "drawn"),
            window=optional_whole(asked, "window"),
            submissions=optional_whole(asked, "submissions") or 1,
            top_up=optional_whole(asked, "top_up"),
            **self._of_the_loss,
            **shared,
        )
        labels = optional_whole(asked, "labels") if not spec.meter.renewal.rolls else None
        if labels is None:
            if alone:
                raise invalid("tolerance", "", "give one, or labels if the test set does not roll")
            return spec
        if alone:
            return plan_asked(spec, labels, asked).spec
        if (needed := plan_of(spec).labels) > labels:
            allowed = f"too few: {needed:,} needed; without a tolerance, it is what they allow"
            raise invalid("labels", labels, allowed)
        return spec

    @property
    def _of_the_loss(self) -> dict[str, Any]:
        """What the page shows for some losses only: for others, it was typed before."""
        asked = self.fields
        found: dict[str, Any] = {}
        if self._loss == "0-1":
            found["judge_error"] = optional_share(asked, "judge_error")
            found["pool"] = optional_whole(asked, "pool")
            if found["judge_error"] is None:
                return found
        elif Corpus.parse(self._loss) is None:
            return found
        else:
            found["floor"] = optional_share(asked, "floor")
        found["rows"] = optional_whole(asked, "rows")
        found["tries"] = optional_whole(asked, "tries") or 1
        return found

    def _condition(self, shared: dict[str, Any]) -> MeterSpec:
        asked = self.fields
        ladder = asked["asks"] == _LADDER
        if not (ladder or asked["condition"]):
            raise invalid("condition", "", "give one, such as n > 0.8 +/- 0.02")
        tolerance = optional_share(asked, "tolerance")
        return MeterSpec(
            bands=(),
            question=_LADDER if ladder else asked["condition"],
            tolerance=(0.05 if tolerance is None else tolerance) if ladder else None,
            passes=optional_whole(asked, "passes"),
            disagreement=optional_share(asked, "disagreement"),
            on_demand=bool(asked["on_demand"]),
            **shared,
        )


@dataclass(frozen=True)
class Drafted:
    """A draft with its plan, or with what is wrong."""

    draft: MeterDraft
    spec: MeterSpec | None = None
    plan: Plan | None = None
    problem: str = ""

    @classmethod
    def of(cls, visit: Visit, draft: MeterDraft) -> Drafted:
        """Plan a draft as far as it can be."""
        try:
            spec = draft.spec
            # Its name is checked when it is made: while people type, any other will do.
            meters.check_meter(spec, "a name", allowed_losses=visit.site.allowed_losses)
            rows = (
                optional_whole(draft.fields, "validation") if spec.meter.question.vouches else None
            )
            return cls(draft, spec, with_validation(plan_of(spec), rows))
        except InvalidInput as error:
            return cls(draft, problem=str(error))

    @property
    def picture(self) -> str:
        """Its bands, if it has any."""
        return "" if self.spec is None else bands_svg(self.spec)

    @property
    def beside(self) -> tuple[str, ...]:
        """What is said beside the promise, and what other answers and labels would promise."""
        plan = self.plan
        asked = self.draft.fields
        if plan is not None and plan.spec.meter.question.vouches:
            return plan.question.below_headline, _listed(other_ways(plan, plan.labels))
        if plan is None or plan.spec.meter.question.reads != "gap" or plan.spec.meter.renewal.rolls:
            return ()
        few, noise, ways = beside(plan, asked, alone=not asked["tolerance"])
        return few, _listed(ways), noise

    @property
    def toml(self) -> str:
        """The same as a file."""
        return "" if self.spec is None else self.spec.to_toml()

    @property
    def next_people(self) -> list[str]:
        """Whom the meter needs before its first answer, and for what."""
        if self.spec is None or self.plan is None:
            return []
        sample, renewal = self.spec.meter.sample, self.spec.meter.renewal
        each = " for each batch" if renewal.rolls else ""
        found = [f"A labeler delivers {self.plan.labels:,} {sample.handed_in}{each}."]
        if renewal.joined and not renewal.rolls:
            found[0] += f" To answer on, {labels_needed(self.spec, 2):,} more join them."
        if sample.unlabelled:
            found[0] += f" With them, {sample.unlabelled:,} more rows that the judge labeled."
        developer = "A developer hands in a validation set"
        if meters.classes_open(self.spec):
            found.insert(0, f"{developer}, which says which classes there are. It comes first.")
        else:
            found.append(f"{developer}, and submits.")
        if not sample.public and not sample.models:
            found.append("A runner predicts on the hidden inputs for the developers.")
        return found


def _listed(ways: tuple[Way, ...]) -> str:
    return "; ".join(f"{way.change}: {way.added}" for way in ways)


@router.get("/admin/meters/new")
def new_meter(visit: VisitHere, link: Annotated[str, Query(max_length=4000)] = "") -> Response:
    """Show the form for a new meter, filled from the planner's link or its query, if given."""
    permit(visit.at_site(), meters.create_meter)

    def load() -> Response:
        # Only what stands behind the ? is read: the link itself is never followed.
        query = _query(link) if link else visit.request.query_params
        if link and "steps" not in query:
            raise invalid("link", link[:80], "copy it from the planner, with all after the ?")
        return _page(visit, draft=MeterDraft.of(query), link=link)

    return fill(visit, "link", load, partial(_page, link=link))


def _query(link: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(urlsplit(link).query, max_num_fields=99))
    except ValueError:
        return {}


def _page(
    visit: Visit,
    *,
    status: int = 200,
    problems: dict[str, str] | None = None,
    draft: MeterDraft | None = None,
    link: str = "",
) -> Response:
    return show_forms(
        visit,
        "admin_new_meter.html",
        problems,
        status=status,
        drafted=Drafted.of(visit, draft or MeterDraft.of({})),
        losses=LOSSES,
        scores={name: (words, KINDS[name].averaged) for name, words in SCORES.items()},
        protocols=METERS,
        link=link,
    )


@router.post("/admin/meters/new/plan")
def plan_draft(visit: VisitHere, _: PlannerCounted) -> Response:
    """Return the plan of what was typed so far, for the place beside the form."""
    permit(visit.at_site(), meters.create_meter)
    drafted = Drafted.of(visit, MeterDraft.of(visit.form))
    return visit.render("admin_new_meter_plan.html", drafted=drafted)


@router.post("/admin/meters/new")
def create_meter(visit: VisitHere) -> Response:
    """Make a meter from the form, or from a meter.toml, and ask for its first test set."""
    permit(visit.at_site(), meters.create_meter)
    asked, draft = visit.form.get("do", ""), MeterDraft.of(visit.form)
    if asked == "plan":
        return _page(visit, draft=draft)
    as_text = asked == "text"

    def create() -> Response:
        name = visit.field("name", longest=checks.MAX_NAME)
        spec = _spec_of(visit.field("text", longest=_LONGEST_TOML)) if as_text else draft.spec
        # Without scripts the plan beside the form is older than what was typed.
        if not as_text and visit.form.get("planned") != str(needed := plan_of(spec).labels):
            raise InvalidInput(f"this takes {needed:,} labels: look at the plan, then make it")
        row = meters.create_meter(visit.at_site(), visit.site, spec, name)
        return visit.redirect(
            f"/admin/meters/{row.id}",
            f"{name} is made. Give seats, so that labelers can deliver its first test set.",
        )

    return fill(visit, "text" if as_text else "meter", create, partial(_page, draft=draft))


def _spec_of(text: str) -> MeterSpec:
    return from_tables(read_tables(text))
