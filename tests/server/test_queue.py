"""Models wait in a queue: in order, once, and through crashes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.helpers import Labels, small_spec

from easeml_meter.core.views import Signal
from easeml_meter.errors import InvalidInput, StorageError
from easeml_meter.meter import Meter
from easeml_meter.scoring.bundle import Bundle
from easeml_meter.service.submissions import queue
from easeml_meter.service.submissions.kinds import Command, PredictionFiles, Submitted

from .driving import VALIDATION, begin, packed, predictions, submit
from .helpers import Served, serve

Answer = Callable[[str], None]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path / "site") as site:
        yield site


@pytest.fixture
def meter(served: Served) -> str:
    return served.add_meter(small_spec(models=True, tenants=(2, 2)))


@pytest.fixture
def labels(served: Served, meter: str, tmp_path: Path) -> Labels:
    return begin(served, meter, tmp_path)


@pytest.fixture
def told(labels: Labels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Answer]:
    """Let commands stand for perfect predictions; what a name stands for is done first."""
    answers: dict[str, Answer] = {}
    original = Meter.submit_any

    def submit_any(meter: Meter, submitted: Submitted, *, model: str, **options: Any) -> Signal:
        if isinstance(submitted, Command) and not options["conditions"].hopeless:
            if model in answers:
                answers[model](model)
            files = tmp_path / f"{model}.parquet", tmp_path / f"{model}-validation.parquet"
            files[0].write_bytes(predictions(labels, submitted.bundle.digest))
            files[1].write_bytes(predictions(VALIDATION))
            submitted = PredictionFiles(*files)
        return original(meter, submitted, model=model, **options)

    monkeypatch.setattr(Meter, "submit_any", submit_any)
    return answers


def hand_in(
    client: httpx.Client, meter: str, model: str = "model", **options: Any
) -> httpx.Response:
    body = options.pop("body", Bundle(f"predict {model}").to_bytes())
    params = {"model": model, **options.pop("params", {})}
    return client.post(f"/meters/{meter}/submissions", params=params, content=body, **options)


def show(client: httpx.Client, meter: str, submission: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/meters/{meter}/submissions/{submission}").json()
    return found


@pytest.mark.usefixtures("told")
def test_a_model_is_queued_and_then_answered(served: Served, meter: str) -> None:
    developer = served.client("developer")
    accepted = hand_in(developer, meter)
    assert accepted.status_code == 202, accepted.text
    waiting = accepted.json()
    assert (waiting["state"], waiting["kind"], waiting["signal"]) == ("queued", "command", None)
    assert developer.get(f"/meters/{meter}/submissions/{waiting['id']}").status_code == 202

    assert queue.claim(served.site) == waiting["id"]
    assert show(developer, meter, waiting["id"])["state"] == "running"
    queue.work(served.site, waiting["id"])
    done = show(developer, meter, waiting["id"])
    assert (done["state"], done["step"], done["signal"]["band"]) == ("done", 1, 1)
    listed = developer.get(f"/meters/{meter}/submissions").json()["items"]
    assert [each["id"] for each in listed] == [waiting["id"]]
    assert not served.site.space(meter).files.names("submissions")
    queue.work(served.site, waiting["id"])  # done twice, it does nothing
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 1


@pytest.mark.usefixtures("told")
def test_a_client_of_version_0_1_0_submits_the_same_command(served: Served, meter: str) -> None:
    """It sends a command in a form of its own; the answer is not charged twice."""
    header = b'{"command": "predict model", "files": []}'
    bundle = b"easeml-meter bundle 1\n" + len(header).to_bytes(8, "big") + header
    developer = served.client("developer")
    for body in (packed(command_bundle=bundle), Bundle("predict model").to_bytes()):
        accepted = hand_in(developer, meter, body=body)
        assert accepted.status_code == 202, accepted.text
        queue.work(served.site, accepted.json()["id"])
        done = show(developer, meter, accepted.json()["id"])
        assert (done["state"], done["step"]) == ("done", 1)
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 1


@pytest.mark.usefixtures("told")
def test_a_tenants_submissions_go_one_after_the_other(served: Served, meter: str) -> None:
    one, two = served.client("developer"), served.client("developer2")
    first, second = (hand_in(one, meter, name).json()["id"] for name in ("a", "b"))
    other = hand_in(two, meter, "c").json()["id"]
    assert queue.claim(served.site) == first
    assert queue.claim(served.site) == other
    assert queue.claim(served.site) is None
    queue.work(served.site, first)
    assert queue.claim(served.site) == second
    queue.put_back(served.site, second)
    assert queue.claim(served.site) == second


@pytest.mark.usefixtures("told")
def test_what_a_dead_process_held_is_done_again(served: Served, meter: str) -> None:
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    assert queue.claim(served.site) == submission
    worker = queue.Worker(served.site)
    worker.start()
    try:
        done = developer.get(f"/meters/{meter}/submissions/{submission}", params={"wait": 30})
    finally:
        worker.stop()
    assert done.status_code == 200
    assert done.json()["state"] == "done"


@pytest.mark.usefixtures("told")
def test_waiting_for_a_model_gives_its_answer(served: Served, meter: str) -> None:
    worker = served.app.state.worker = queue.Worker(served.site)
    worker.start()
    try:
        answer = hand_in(served.client("developer"), meter, params={"wait": 30})
    finally:
        worker.stop()
    assert answer.status_code == 200
    assert answer.json()["signal"]["band"] == 1
    submission = answer.json()["id"]
    events = served.client("developer").get(f"/meters/{meter}/submissions/{submission}/events")
    assert events.text == f'event: state\ndata: {{"id": "{submission}", "state": "done"}}\n\n'


def test_a_stop_puts_back_what_takes_too_long(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    begun, over = threading.Event(), threading.Event()

    def slow(_: str) -> None:
        begun.set()
        assert over.wait(30)

    told["slow"] = slow
    developer = served.client("developer")
    submission = hand_in(developer, meter, "slow").json()["id"]
    worker = queue.Worker(served.site)
    worker.start()
    assert begun.wait(30)
    worker.stop(patience=0)
    try:
        assert show(developer, meter, submission)["state"] == "queued"
    finally:
        over.set()
        worker.stop()


def test_a_model_that_does_not_fit_is_refused_for_nothing(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    def unfit(_: str) -> None:
        raise InvalidInput("model: no output fits the loss")

    told["unfit"] = unfit
    developer = served.client("developer")
    submission = hand_in(developer, meter, "unfit").json()["id"]
    queue.work(served.site, submission)
    refused = show(developer, meter, submission)
    assert refused["state"] == "refused"
    assert refused["problem"] == {"error": "invalid", "message": "model: no output fits the loss"}
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2


def test_without_a_database_it_is_tried_again(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    def down(_: str) -> None:
        raise StorageError("the database is away")

    told["model"] = down
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    with pytest.raises(StorageError):
        queue.work(served.site, submission)
    assert show(developer, meter, submission)["state"] == "queued"
    del told["model"]
    queue.work(served.site, submission)
    assert show(developer, meter, submission)["state"] == "done"


def test_what_never_finishes_is_an_answer_at_last(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    def broken(_: str) -> None:
        raise ZeroDivisionError("secret")

    told["model"] = broken
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    for _ in range(queue.MOST_ATTEMPTS):
        with pytest.raises(ZeroDivisionError):
            queue.work(served.site, submission)
    queue.work(served.site, submission)
    ended = show(developer, meter, submission)
    assert (ended["state"], ended["signal"]["answer"]) == ("done", "no-reading")
    assert "secret" not in str(ended)


@pytest.mark.usefixtures("told")
def test_what_waits_can_be_taken_back(served: Served, meter: str) -> None:
    developer, other = served.client("developer"), served.client("developer2")
    submission = hand_in(developer, meter).json()["id"]
    path = f"/meters/{meter}/submissions/{submission}"
    assert other.delete(path).status_code == 404
    assert developer.delete(path).status_code == 204
    assert developer.get(path).status_code == 404
    assert queue.claim(served.site) is None
    queue.work(served.site, submission)
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2

    submission = hand_in(developer, meter).json()["id"]
    queue.work(served.site, submission)
    refused = developer.delete(f"/meters/{meter}/submissions/{submission}")
    assert (refused.status_code, refused.json()["error"]) == (409, "conflict")


@pytest.mark.usefixtures("told")
def test_a_key_queues_a_model_once(served: Served, meter: str) -> None:
    developer, headers = served.client("developer"), {"Idempotency-Key": "one"}
    first, again = (hand_in(developer, meter, headers=headers) for _ in range(2))
    assert first.json() == again.json()
    assert len(developer.get(f"/meters/{meter}/submissions").json()["items"]) == 1


def test_a_model_is_refused_before_there_is_a_test_set(served: Served, meter: str) -> None:
    refused = hand_in(served.client("developer"), meter)
    assert (refused.status_code, refused.json()["error"]) == (409, "wrong-time")


def test_predictions_do_not_wait_for_models(
    served: Served, meter: str, labels: Labels, told: dict[str, Answer]
) -> None:
    developer = served.client("developer")
    hand_in(developer, meter)
    assert submit(developer, meter, labels).json()["step"] == 1
