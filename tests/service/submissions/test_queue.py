"""Models wait in a queue: in order, once, and through crashes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.forms import archived, command, form
from tests.server.driving import (
    VALIDATION,
    begin,
    give_validation,
    predictions,
    submit,
)
from tests.server.helpers import Served, serve
from tests.server.team import model_body
from tests.service.helpers import Labels, small_spec
from tests.service.submissions.models import threshold

from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.submissions import SubmissionState, Ticket
from easeml_meter.core.views import Signal
from easeml_meter.errors import (
    FilesUnusable,
    InvalidInput,
    MeterError,
    Spent,
    StorageError,
    Unreachable,
)
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.handovers import hand_over
from easeml_meter.service.jobs import ThreadRunner
from easeml_meter.service.place import Site, Workspace
from easeml_meter.service.submissions import answering, queue
from easeml_meter.service.submissions.kinds import Command, PredictionFiles, Submitted
from easeml_meter.service.submissions.measuring import USUAL, Conditions
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.work import Submissions
from easeml_meter.storage.store import Store

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
    original = answering.answer

    def answer(
        actor: Actor,
        space: Workspace,
        given: Submitted,
        model: str,
        conditions: Conditions = USUAL,
        **options: Any,
    ) -> Signal:
        if isinstance(given, Command) and not conditions.hopeless:
            if model in answers:
                answers[model](model)
            test, validation = (tmp_path / f"{model}{end}" for end in (".parquet", "-v.parquet"))
            test.write_bytes(predictions(labels, given.bundle.digest))
            validation.write_bytes(predictions(VALIDATION))
            given = PredictionFiles(test, validation)
        return original(actor, space, given, model, conditions, **options)

    monkeypatch.setattr(queue, "answer", answer)
    return answers


def run_all(served: Served) -> None:
    """Answer all that waits, in this thread."""
    running = ThreadRunner(served.site, queue.answering())
    while running.run_next():
        pass


def hand_in(
    client: httpx.Client, meter: str, model: str = "model", **options: Any
) -> httpx.Response:
    body = options.pop("body", command(f"predict {model}"))
    params = {"model": model, **options.pop("params", {})}
    return client.post(f"/meters/{meter}/submissions", params=params, content=body, **options)


def replace_validation(served: Served, meter: str) -> None:
    assert give_validation(served.client("developer"), meter, seed=8).status_code == 201


def show(client: httpx.Client, meter: str, submission: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/meters/{meter}/submissions/{submission}").json()
    return found


def test_a_model_is_queued_and_then_answered(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    developer = served.client("developer")
    accepted = hand_in(developer, meter)
    assert accepted.status_code == 202, accepted.text
    waiting = accepted.json()
    assert (waiting["state"], waiting["kind"], waiting["signal"]) == ("queued", "command", None)
    assert developer.get(f"/meters/{meter}/submissions/{waiting['id']}").status_code == 202

    states = []
    told["model"] = lambda _: states.append(show(developer, meter, waiting["id"])["state"])
    run_all(served)
    assert states == ["running"]
    done = show(developer, meter, waiting["id"])
    assert (done["state"], done["step"], done["signal"]["band"]) == ("done", 1, 1)
    listed = developer.get(f"/meters/{meter}/submissions").json()["items"]
    assert [each["id"] for each in listed] == [waiting["id"]]
    assert not served.site.space(meter).files.names("submissions")
    queue.work(SYSTEM, served.site, waiting["id"])  # done twice, it does nothing
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 1


def test_a_tenants_submissions_go_one_after_the_other(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    """Also if the first has to be tried again; the other tenant does not wait for it."""
    one, two = served.client("developer"), served.client("developer2")
    order: list[str] = []

    def fails_first(name: str) -> None:
        order.append(name)
        if order.count(name) == 1:
            raise ZeroDivisionError

    told["a"], told["b"], told["c"] = fails_first, order.append, order.append
    for client, name in ((one, "a"), (one, "b"), (two, "c")):
        hand_in(client, meter, name)
    worker = ThreadRunner(served.site, queue.answering())
    assert worker.run_next()
    assert worker.run_next()
    assert not worker.run_next()
    assert order == ["a", "c"]
    run_all(served)
    assert order == ["a", "c", "a", "b"]


def test_teams_take_turns_however_many_models_one_has(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    """Before, a team's models all went before those that another handed in later."""
    one, two = served.client("developer"), served.client("developer2")
    order: list[str] = []

    def unfit(name: str) -> None:
        order.append(name)
        raise InvalidInput("model: no output fits the loss")

    for name in ("a1", "a2", "a3", "a4"):
        told[name] = unfit
        hand_in(one, meter, name)
    worker = ThreadRunner(served.site, queue.answering())
    assert worker.run_next()
    for name in ("b1", "b2"):
        told[name] = unfit
        hand_in(two, meter, name)
    run_all(served)
    assert order == ["a1", "a2", "a3", "b1", "a4", "b2"]


@pytest.mark.usefixtures("labels")
def test_only_so_many_models_of_a_team_wait(
    served: Served, meter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MOST_WAITING", 2)
    one, two = served.client("developer"), served.client("developer2")
    first = hand_in(one, meter, "a").json()["id"]
    assert hand_in(one, meter, "b").status_code == 202
    refused = hand_in(one, meter, "c")
    assert (refused.status_code, refused.json()["error"]) == (429, "too-many")
    assert "2 models of this team wait already" in refused.json()["message"]
    assert hand_in(two, meter, "d").status_code == 202
    assert one.delete(f"/meters/{meter}/submissions/{first}").status_code == 204
    assert hand_in(one, meter, "c").status_code == 202
    assert len(list(served.site.space(meter).files.names("submissions"))) == 3


@pytest.mark.usefixtures("told")
def test_what_a_dead_process_held_is_done_again(served: Served, meter: str) -> None:
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    with served.site.writing() as books:
        ticket = books.submissions.get(submission)
        assert ticket is not None
        books.submissions.change(replace(ticket, state=SubmissionState.RUNNING, attempts=1))
    worker = ThreadRunner(served.site, queue.answering())
    worker.start()
    try:
        done = developer.get(f"/meters/{meter}/submissions/{submission}", params={"wait": 30})
    finally:
        worker.stop()
    assert done.status_code == 200
    assert done.json()["state"] == "done"


@pytest.mark.usefixtures("told")
def test_waiting_for_a_model_gives_its_answer(served: Served, meter: str) -> None:
    worker = served.app.state.worker = ThreadRunner(served.site, queue.answering())
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
    worker = ThreadRunner(served.site, queue.answering())
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
    queue.work(SYSTEM, served.site, submission)
    refused = show(developer, meter, submission)
    assert refused["state"] == "refused"
    assert refused["problem"] == {"error": "invalid", "message": "model: no output fits the loss"}
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2


@pytest.mark.parametrize("kind", [StorageError, FilesUnusable, Unreachable])
def test_without_a_database_files_or_cluster_it_is_tried_again(
    served: Served, meter: str, told: dict[str, Answer], kind: type[MeterError]
) -> None:
    def down(_: str) -> None:
        raise kind("it is away")

    told["model"] = down
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    with pytest.raises(kind):
        queue.work(SYSTEM, served.site, submission)
    assert show(developer, meter, submission)["state"] == "queued"
    del told["model"]
    queue.work(SYSTEM, served.site, submission)
    assert show(developer, meter, submission)["state"] == "done"


def reach(served: Served, submission: str, attempts: int = 1) -> None:
    """Write down that a model is about to run on hidden rows, as a worker does."""
    with served.site.writing() as books:
        ticket = books.submissions.get(submission)
        assert ticket is not None
        running = replace(ticket, state=SubmissionState.RUNNING, attempts=attempts)
        books.submissions.change(running.reaching(1, 1))


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), InvalidInput("secret")])
def test_what_never_finishes_on_hidden_rows_is_an_answer_at_last(
    served: Served, meter: str, told: dict[str, Answer], error: Exception
) -> None:
    """Until then it is shown as running, whatever happens to its workers."""

    def broken(_: str) -> None:
        raise error

    told["model"] = broken
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    reach(served, submission)
    for _ in range(queue.MOST_ATTEMPTS - 1):
        with pytest.raises(type(error)):
            queue.work(SYSTEM, served.site, submission)
        assert show(developer, meter, submission)["state"] == "running"
        path = f"/meters/{meter}/submissions/{submission}"
        assert developer.delete(path).status_code == 409
    replace_validation(served, meter)  # the answer is on the set that it ran with
    queue.work(SYSTEM, served.site, submission)
    ended = show(developer, meter, submission)
    assert (ended["state"], ended["signal"]["answer"]) == ("done", "no-reading")
    with served.site.reading() as books:
        (entry,) = books.entries.all(meter, 1)
    assert entry.validation_number == 1
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 1
    assert ended["signal"]["validation_loss"] is None
    assert "secret" not in str(ended)


def test_what_never_reaches_hidden_rows_is_refused_for_nothing(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    def broken(_: str) -> None:
        raise ZeroDivisionError("secret")

    told["model"] = broken
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    for _ in range(queue.MOST_ATTEMPTS):
        with pytest.raises(ZeroDivisionError):
            queue.work(SYSTEM, served.site, submission)
    queue.work(SYSTEM, served.site, submission)
    ended = show(developer, meter, submission)
    assert (ended["state"], ended["problem"]["error"]) == ("refused", "internal")
    assert "secret" not in str(ended)
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2


@pytest.mark.usefixtures("told")
def test_a_model_whose_worker_died_is_answered_once(served: Served, meter: str) -> None:
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    reach(served, submission)
    queue.answering().put_back(served.site, submission)
    assert show(developer, meter, submission)["state"] == "running"
    replace_validation(served, meter)
    run_all(served)
    assert show(developer, meter, submission)["state"] == "done"
    with served.site.reading() as books:
        (entry,) = books.entries.all(meter, 1)
    assert (entry.step, entry.validation_number) == (1, 1)


def test_an_answer_is_left_for_a_model_on_hidden_rows(
    served: Served, meter: str, labels: Labels
) -> None:
    """Else predictions could use up the budget meanwhile, and the run would be free."""
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    reach(served, submission, queue.MOST_ATTEMPTS)
    assert submit(developer, meter, labels, errors=1).json()["step"] == 1
    refused = submit(developer, meter, labels, errors=2)
    assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
    assert "submit again when it is answered" in refused.json()["message"]
    run_all(served)
    assert show(developer, meter, submission)["step"] == 2


def test_a_command_that_could_carry_hidden_inputs_out_is_refused(
    served: Served, tmp_path: Path
) -> None:
    """What its run has read of a file stays in memory, and the next run can see it: 41 of 41 bits.

    An ONNX file has no program, so it is taken.
    """
    tried: list[tuple[str, dict[str, Any], int]] = [
        ("no-", {"commands_may_carry_inputs_out": False}, 422),
        ("yes-", {"commands_may_carry_inputs_out": True}, 202),
        ("public-", {"inputs": "public"}, 202),
    ]
    for seed, (prefix, options, status) in enumerate(tried):
        meter = served.add_meter(small_spec(models=True, **options), prefix=prefix)
        (tmp_path / prefix).mkdir()
        begin(served, meter, tmp_path / prefix, seed=seed, prefix=prefix)
        developer = served.client(f"{prefix}developer")
        answer = hand_in(developer, meter)
        assert answer.status_code == status, answer.text
        if status == 422:
            assert "submission: 'a command' given, an ONNX file: " in answer.json()["message"]
            onnx = form(threshold(tmp_path / "model.onnx").form())
            path = f"/meters/{meter}/submissions"
            assert developer.post(path, params={"model": "m"}, content=onnx).status_code == 202
    with pytest.raises(InvalidInput, match="only with models = true and inputs"):
        small_spec(models="onnx", commands_may_carry_inputs_out=True)


@pytest.fixture
def shared(served: Served, tmp_path: Path) -> tuple[str, Labels]:
    """Give a meter with two teams, and labels for them to share."""
    spec = small_spec(models=True, steps=6, tenants=(3, 3))
    meter = served.add_meter(spec, prefix="shared-")
    size = required_labels(spec).labels + 10
    return meter, begin(served, meter, tmp_path, prefix="shared-", size=size)


def hand_over_in(served: Served, meter: str) -> int:
    """Let both teams share a history; return the answers that they have left together."""
    space = served.site.space(meter)
    return hand_over(SYSTEM, space, 1, 2, confirm=True).steps_left_after


def test_an_answer_is_left_for_a_model_of_a_team_that_shares_the_history(
    served: Served, shared: tuple[str, Labels]
) -> None:
    """The other team used it up, and the run on hidden rows was free."""
    meter, labels = shared
    developer, other = served.client("shared-developer"), served.client("shared-developer2")
    left = hand_over_in(served, meter)
    assert left >= 1
    ids = [hand_in(each, meter).json()["id"] for each in (developer, other)]
    reach(served, ids[0], queue.MOST_ATTEMPTS)
    for errors in range(1, left):
        assert submit(other, meter, labels, errors=errors).status_code == 200
    refused = submit(other, meter, labels, errors=left)
    assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
    assert "a team that shares its answers" in refused.json()["message"]
    with pytest.raises(MeterError, match="submit again when it is answered"):
        queue._reach(reaching(served, meter), ids[1])  # its model reaches no hidden rows either
    queue.work(SYSTEM, served.site, ids[0])
    assert show(developer, meter, ids[0])["signal"]["answer"] == "no-reading"


def test_no_hand_over_takes_the_answer_of_a_model_on_hidden_rows(
    served: Served, meter: str, labels: Labels
) -> None:
    """A test set of the planned size leaves the teams one answer to share: one run was free."""
    del labels  # the meter answers
    clients = [served.client("developer"), served.client("developer2")]
    ids = [hand_in(each, meter).json()["id"] for each in clients]
    for each in ids:
        reach(served, each, queue.MOST_ATTEMPTS)
    with pytest.raises(MeterError, match="agree when it is answered"):
        hand_over_in(served, meter)
    for client, each in zip(clients, ids, strict=True):
        queue.work(SYSTEM, served.site, each)
        assert show(client, meter, each)["signal"]["answer"] == "no-reading"
    hand_over_in(served, meter)


@pytest.mark.usefixtures("told")
def test_what_waits_can_be_taken_back(served: Served, meter: str) -> None:
    developer, other = served.client("developer"), served.client("developer2")
    submission = hand_in(developer, meter).json()["id"]
    path = f"/meters/{meter}/submissions/{submission}"
    assert other.delete(path).status_code == 404
    assert developer.delete(path).status_code == 204
    assert developer.get(path).status_code == 404
    queue.work(SYSTEM, served.site, submission)
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2

    submission = hand_in(developer, meter).json()["id"]
    queue.work(SYSTEM, served.site, submission)
    refused = developer.delete(f"/meters/{meter}/submissions/{submission}")
    assert (refused.status_code, refused.json()["error"]) == (409, "conflict")


def test_what_was_begun_can_no_longer_be_cancelled(
    served: Served, meter: str, told: dict[str, Answer]
) -> None:
    """Also not while it waits for its next attempt: it may have run on hidden rows."""

    def down(_: str) -> None:
        raise StorageError("the database is away")

    told["model"] = down
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    with pytest.raises(StorageError):
        queue.work(SYSTEM, served.site, submission)
    assert show(developer, meter, submission)["state"] == "queued"
    refused = developer.delete(f"/meters/{meter}/submissions/{submission}")
    assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
    del told["model"]
    run_all(served)
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 1


@pytest.mark.usefixtures("told")
@pytest.mark.usefixtures("told")
def test_the_same_bytes_of_a_model_that_waits_are_that_ticket(served: Served, meter: str) -> None:
    developer, other = served.client("developer"), served.client("developer2")
    first, again = (hand_in(developer, meter) for _ in range(2))
    assert (first.status_code, first.json()) == (202, again.json())
    body = command("predict model")
    assert hand_in(developer, meter, "another name", body=body).json() == first.json()
    assert len(developer.get(f"/meters/{meter}/submissions").json()["items"]) == 1
    assert hand_in(other, meter).json()["id"] != first.json()["id"]  # another team's is its own
    assert len(served.site.space(meter).files.names("submissions")) == 2
    run_all(served)
    late = hand_in(developer, meter)  # answered by now: free, like any repetition
    assert late.json()["id"] != first.json()["id"]
    run_all(served)
    found = show(developer, meter, late.json()["id"])
    assert (found["state"], found["step"], found["signal"]["repeated"]) == ("done", 1, False)


@pytest.mark.usefixtures("told")
def test_the_sets_that_were_seen_matter_when_a_model_is_accepted_and_not_when_it_runs(
    served: Served, meter: str
) -> None:
    developer, seen = served.client("developer"), {"test_set": 1, "validation_set": 1}
    accepted = hand_in(developer, meter, params=seen)
    assert give_validation(developer, meter, seed=77).json()["number"] == 2
    assert hand_in(developer, meter, params=seen).json() == accepted.json()
    late = hand_in(developer, meter, "late", params=seen)
    assert (late.status_code, late.json()["error"]) == (409, "wrong-time")
    run_all(served)
    assert show(developer, meter, accepted.json()["id"])["step"] == 1
    assert len(served.site.space(meter).files.names("submissions")) == 0


@pytest.mark.usefixtures("told")
def test_a_model_that_was_answered_is_free_on_the_sets_that_were_seen(
    served: Served, meter: str
) -> None:
    """Before, its repetition was charged once the validation set was replaced."""
    developer, seen = served.client("developer"), {"test_set": 1, "validation_set": 1}
    hand_in(developer, meter, params=seen)
    with served.site.writing() as books:
        (ticket,) = books.submissions.unfinished()
    run_all(served)
    assert give_validation(developer, meter, seed=77).json()["number"] == 2
    with served.site.reading() as books:  # what it is known by: the commands here are stand-ins
        (entry,) = books.entries.all(meter, 1)
    with served.site.writing() as books:
        table = schema.entries
        name = {"submission": ticket.options["bytes"]}
        books.connection.execute(table.update().where(table.c.step == entry.step), name)
    again = hand_in(developer, meter, params=seen)
    assert (again.status_code, again.json()["step"]) == (200, 1)
    assert again.json()["signal"]["repeated"]
    assert not served.site.space(meter).files.names("submissions")


def test_of_two_at_once_one_is_queued(served: Served, meter: str, labels: Labels) -> None:
    del labels  # the meter answers
    actor = Actor(((Role.DEVELOPER, 1),), user=served.users["developer"].id)
    space, body = served.site.space(meter), archived(command("predict m"))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: queue.accept(actor, space, "m", body), range(4)))
    assert len({receipt.id for receipt, _ in found}) == 1
    assert len(space.files.names("submissions")) == 1


@pytest.mark.usefixtures("told")
def test_a_model_that_was_queued_by_a_commit_unheard_keeps_its_file(
    served: Served, meter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Store.writing

    @contextmanager
    def unheard(self: Store, meter: str | None = None) -> Iterator[Books]:
        with original(self, meter) as books:
            yield books
        raise StorageError("the books cannot be used: server closed the connection")

    developer = served.client("developer")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "writing", unheard)
        assert hand_in(developer, meter).status_code == 503
    again = hand_in(developer, meter)
    assert again.status_code == 202, again.text
    run_all(served)
    assert show(developer, meter, again.json()["id"])["state"] == "done"


@pytest.mark.usefixtures("told")
def test_a_queued_model_repeats_the_answer_that_its_name_got_meanwhile(
    served: Served, meter: str
) -> None:
    """That it was handed in with `once` was forgotten in the queue, and it cost a step."""
    developer = served.client("developer")
    bodies = (command("predict one"), command("predict two"))
    for body in bodies:
        assert hand_in(developer, meter, body=body, params={"once": True}).status_code == 202
    run_all(served)
    found = developer.get(f"/meters/{meter}/submissions").json()["items"]
    assert [(each["state"], each["step"]) for each in found] == 2 * [("done", 1)]


@pytest.mark.slow
@pytest.mark.usefixtures("labels")
def test_a_spent_test_set_repeats_its_answer_to_a_model(served: Served, meter: str) -> None:
    """It did so for predictions alone: who had lost the answer and its key was told "spent"."""
    developer, body = served.client("developer"), model_body(1)
    assert hand_in(developer, meter, body=body).status_code == 202
    run_all(served)
    retired = served.client("labeler").post(f"/meters/{meter}/test-sets/1/retire", json={})
    assert retired.is_success, retired.text
    again = hand_in(developer, meter, body=body)
    assert again.status_code == 200
    assert again.json()["step"] == 1
    assert again.json()["signal"]["repeated"]
    other = hand_in(developer, meter, body=model_body(2))
    assert (other.status_code, other.json()["error"]) == (409, "spent")


def test_a_model_is_refused_before_there_is_a_test_set(served: Served, meter: str) -> None:
    refused = hand_in(served.client("developer"), meter)
    assert (refused.status_code, refused.json()["error"]) == (409, "wrong-time")


def test_predictions_do_not_wait_for_models(
    served: Served, meter: str, labels: Labels, told: dict[str, Answer]
) -> None:
    developer = served.client("developer")
    hand_in(developer, meter)
    assert submit(developer, meter, labels).json()["step"] == 1


@pytest.mark.usefixtures("told")
def test_models_of_a_test_set_that_is_retired(
    served: Served, meter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that runs has touched hidden rows and is answered; the one that waits is refused."""
    clients = {"runs": served.client("developer"), "waits": served.client("developer2")}
    ids = {name: hand_in(client, meter, name).json()["id"] for name, client in clients.items()}
    tell = answering._tell

    def retired_before_it_is_told(*arguments: Any) -> Any:
        monkeypatch.setattr(answering, "_tell", tell)
        path = f"/meters/{meter}/test-sets/1/retire"
        assert served.client("labeler").post(path).status_code == 200
        return tell(*arguments)

    monkeypatch.setattr(answering, "_tell", retired_before_it_is_told)
    run_all(served)
    done, refused = (show(clients[name], meter, ids[name]) for name in clients)
    assert (done["state"], done["step"], done["signal"]["band"]) == ("done", 1, 1)
    assert (refused["state"], refused["problem"]["error"]) == ("refused", "spent")
    assert "fresh labels are needed (test set 2)" in refused["problem"]["message"]


@pytest.fixture
def on_postgresql(tmp_path: Path, team_database: str) -> Iterator[tuple[Served, str, str]]:
    """Give a site on PostgreSQL, where meters have locks of their own, with a model that is run."""
    with serve(tmp_path / "site", database=team_database) as served:
        meter = served.add_meter(small_spec(models=True))
        begin(served, meter, tmp_path)
        submission = hand_in(served.client("developer"), meter).json()["id"]
        assert queue._begin(served.site, submission) is not None
        yield served, meter, submission


def reaching(served: Served, meter: str) -> Any:
    """Return what a worker has measured when a model is about to run on hidden rows."""
    space = served.site.space(meter)
    with space.reading() as books:
        test_set, validation = space.state(books).active(), books.validation.all(meter)[-1]
    return SimpleNamespace(space=space, generation=test_set, validation=validation)


@pytest.mark.usefixtures("labels")
def test_a_release_waits_for_a_model_on_hidden_rows(served: Served, meter: str) -> None:
    """It was refused as spent then, which made its run on them free."""
    clients = [served.client("developer"), served.client("developer2")]
    first, second = (hand_in(each, meter).json()["id"] for each in clients)
    on, labeler = reaching(served, meter), served.client("labeler")
    assert queue._begin(served.site, first) is not None
    queue._reach(on, first)
    assert labeler.post(f"/meters/{meter}/test-sets/1/retire").status_code == 200
    with pytest.raises(Spent):  # it has touched none
        queue._reach(on, second)
    early = labeler.post(f"/meters/{meter}/test-sets/1/release").json()
    assert early["error"] == "wrong-time"
    assert "a model is running on the hidden rows of test set 1" in early["message"]


@pytest.mark.parametrize("change", [queue._begin, queue._put_back])
def test_a_run_on_hidden_rows_is_charged_whoever_writes_at_the_same_time(
    on_postgresql: tuple[Served, str, str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Site, str], object],
) -> None:
    """Another worker takes over, or the worker is stopped, just when the model reaches them."""
    served, meter, submission = on_postgresql
    on = reaching(served, meter)
    worker = threading.Thread(target=queue._reach, args=(on, submission))
    original = Submissions.change

    def late(self: Submissions, ticket: Ticket) -> None:
        if worker.ident is None:
            worker.start()
            worker.join(1)  # it waits for the lock, or writes before us
        original(self, ticket)

    monkeypatch.setattr(Submissions, "change", late)
    change(served.site, submission)
    worker.join()
    with served.site.reading() as books:
        ticket = books.submissions.get(submission)
    assert ticket is not None
    assert ticket.reached == (1, 1)
    while ticket.attempts < queue.MOST_ATTEMPTS:  # workers that die
        begun = queue._begin(served.site, submission)
        assert begun is not None
        ticket = begun
    queue.work(SYSTEM, served.site, submission)
    ended = show(served.client("developer"), meter, submission)
    assert (ended["state"], ended["signal"]["answer"]) == ("done", "no-reading")
    with served.site.reading() as books:
        assert len(books.entries.all(meter, 1)) == 1


@pytest.mark.usefixtures("labels")
def test_a_model_that_is_given_up_reaches_no_hidden_rows(served: Served, meter: str) -> None:
    """Its worker, taken for dead, would run it for free."""
    submission = hand_in(served.client("developer"), meter).json()["id"]
    for _ in range(queue.MOST_ATTEMPTS):
        assert queue._begin(served.site, submission) is not None
    queue.work(SYSTEM, served.site, submission)
    with pytest.raises(MeterError, match="another worker has ended"):
        queue._reach(reaching(served, meter), submission)


@pytest.mark.usefixtures("labels")
@pytest.mark.parametrize("kind", [StorageError, FilesUnusable])
def test_no_database_or_files_at_the_last_try_do_not_make_a_run_free(
    served: Served, meter: str, monkeypatch: pytest.MonkeyPatch, kind: type[MeterError]
) -> None:
    developer = served.client("developer")
    submission = hand_in(developer, meter).json()["id"]
    reach(served, submission, queue.MOST_ATTEMPTS)

    def away(*_: object, **__: object) -> Signal:
        raise kind("it is away")

    with monkeypatch.context() as patched:
        patched.setattr(queue, "answer", away)
        with pytest.raises(kind):
            queue.work(SYSTEM, served.site, submission)
    queue.work(SYSTEM, served.site, submission)
    assert show(developer, meter, submission)["signal"]["answer"] == "no-reading"
