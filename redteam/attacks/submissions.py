"""More answers than were paid for, and answers of others."""

from __future__ import annotations

import concurrent.futures
import math
import time
from typing import Any

import numpy as np
import pyarrow as pa
from tests.forms import packed

from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.score import total_loss
from redteam import attack
from redteam.target import Client, Ground, draw, hold, parquet, predictions, refused


def told(client: Client, ground: Ground) -> int:
    """Return how many answers stand in the books."""
    return len(client.get(ground.at("/status")).json()["signals"])


@attack(who="developer", finding="more answers than the budget has", attempts=[41, 42], seconds=20)
def sixty_submissions_at_once(client: Client) -> None:
    ground = client.target.meter()
    bodies = [ground.guesses() for _ in range(60)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda body: ground.submit(client, body).status_code, bodies))
    hold(statuses.count(200) == 4, f"{statuses.count(200)} of 4 answers")
    hold(told(client, ground) == 4, f"{told(client, ground)} answers in the books")


@attack(who="developer", finding="one submission is charged twice", attempts=[44])
def one_submission_many_times(client: Client) -> None:
    ground = client.target.meter()
    body = ground.guesses()

    def send(content: bytes, sender: Any = client, **query: Any) -> Any:
        path = ground.at("/submissions")
        return sender.post(path, params={"model": "m"} | query, content=content)

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: send(body), range(20)))
    hold({each.status_code for each in answers} <= {200, 503}, "odd statuses")
    refused(send(ground.guesses(), validation_set=2), 409, 422)
    refused(send(body, test_set=0), 409, 422)
    with client.target.client("runner") as runner:
        hold("band" not in send(body, runner).text, "a runner hears a developer's answer")
    hold(told(client, ground) == 1, f"{told(client, ground)} answers for one submission")


@attack(who="developer", finding="the same answer is charged again, or given anew", attempts=[46])
def the_same_bytes_again(client: Client) -> None:
    ground = client.target.meter()
    body = ground.guesses()
    first, again = (ground.submit(client, body, model="m").json()["signal"] for _ in range(2))
    hold(first["answer"] == again["answer"], "the same bytes get two answers")
    hold(told(client, ground) == 1, "the same bytes are charged twice")
    for _ in range(3):
        ground.submit(client)
    refused(ground.submit(client), 409)
    late = ground.submit(client, body, model="m").json()["signal"]
    hold(late["answer"] == first["answer"], "after the end the same bytes get another answer")
    hold(told(client, ground) == 4, "an answer beyond the budget")


@attack(who="developer2", finding="a team sees another team's answers", attempts=[5, 47])
def another_team(client: Client) -> None:
    ground = client.target.meter(tenants=(2, 2))
    with client.target.client("developer") as other:
        made = ground.submit(other).json()
    for end in ("", "/events"):
        refused(client.get(ground.at(f"/submissions/{made['id']}{end}")), 404)
        refused(client.get(client.target.ground.at(f"/submissions/{made['id']}{end}")), 404)
    for each in ("status", "signals", "history", "report.html", "submissions"):
        refused(client.get(ground.at(f"/{each}"), params={"tenant": 1}), 403, 404)
    refused(ground.submit(client, tenant=1), 403, 404)
    refused(client.delete(ground.at(f"/submissions/{made['id']}")), 404)
    chain = client.get(ground.at("/audit")).text
    hold(made["model"] not in chain, "the chain shows the other team's model")


@attack(who="runner", finding="a runner learns an answer", attempts=[48])
def answers_of_a_runner(client: Client) -> None:
    ground = client.target.meter()
    body = ground.guesses()
    for _ in range(2):
        sent = ground.submit(client, body, model="m").json()
        hold(sent["signal"] is None, f"a runner is told {sent['signal']}")
    for path in (f"/submissions/{sent['id']}", "/submissions"):
        hold('"answer"' not in client.get(ground.at(path)).text, f"{path} tells an answer")


@attack(who="developer", finding="one team ends the budget of another", attempts=[49])
def a_hand_over_by_one_side(client: Client) -> None:
    ground = client.target.meter(tenants=(2, 2))
    body = {"giver": 1, "receiver": 2, "confirm": True}
    client.post(ground.at("/handovers"), json=body)
    hold(ground.steps_left("developer2") == 2, "the other team's steps are gone")
    with client.target.client("developer2") as other:
        hold(ground.submit(other).status_code == 200, "the other team is not answered")


@attack(who="developer", finding="odd predictions cost a step, or stop the server", attempts=[50])
def odd_predictions(client: Client) -> None:
    ground = client.target.ground
    size, left = len(ground.labels), ground.steps_left()
    for value in (np.nan, np.inf, 1e308, -1, 2, 0.5):
        refused(ground.submit(client, ground.guesses(np.full(size, value))), 422)
    for text in ("\uff10", "\u041e", " 0", "0 ", "1e400", "", "null"):
        refused(ground.submit(client, ground.guesses([text] * size)), 422)
    for params in ({"tenant": 9}, {"model": ""}, {"model": "x" * 201}, {"wait": -1}, {"x": 1}):
        refused(ground.submit(client, **params))
    refused(ground.submit(client, model="a\x00b"), 422)
    for content in odd_forms(ground):
        refused(ground.submit(client, content), 422)
    hold(ground.steps_left() == left, "what was refused was charged")


def odd_forms(ground: Ground) -> list[bytes]:
    """Return forms that are no submission."""
    good = ground.guesses()
    test = predictions(draw(len(ground.labels)))
    found = [b"", b"x", good[: len(good) // 2], good[512:], packed({"test.parquet": test})]
    found += [packed({"a": b"", "b": b"", "c": b""})]
    for name in ("../p.py", "/etc/passwd", "a/./b", "a//b", "\u202e"):
        found.append(packed({"command": b"python p.py", f"files/{name}": b"1"}))
    return found


@attack(who="developer", finding="a check tells something about labels", attempts=[59])
def asking_without_paying(client: Client) -> None:
    ground = client.target.meter()
    path = ground.at("/submissions/check")
    answers = set()
    for test in (ground.labels, 1 - ground.labels):
        body = packed(
            {
                "test.parquet": parquet(pa.table({"id": np.arange(len(test)), "prediction": test})),
                "validation.parquet": predictions(ground.validation),
            }
        )
        found = client.post(path, content=body).raise_for_status().json()
        answers.add(str({name: each for name, each in found.items() if name != "test"}))
    hold(len(answers) == 1, "a check differs between right and wrong predictions")
    hold(ground.steps_left() == 4, "a check costs a step")


@attack(who="owner", finding="the time of an answer depends on labels", attempts=[58], small=False)
def scoring_time_by_labels(client: Client) -> None:
    size = 1_000_000
    loss = parse_loss("0-1")
    labels = draw(size).astype(np.int8)
    # A copy of the labels: the same array twice would be read from memory once.
    guesses = (labels.copy(), 1 - labels, np.zeros(size, np.int8), draw(size).astype(np.int8))
    shortest = [math.inf] * len(guesses)
    # In turns, and by processor time: what the neighbours do strikes all of them alike.
    for _ in range(100):
        for place, guessed in enumerate(guesses):
            started = time.thread_time()
            total_loss(loss, guessed, labels)
            shortest[place] = min(shortest[place], time.thread_time() - started)
    told = ", ".join(f"{each:.5f} s" for each in shortest)
    hold(max(shortest) < 1.5 * min(shortest), f"shortest times {told}")
