"""Submissions by a browser: answered, waited for, taken back."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.scoring.onnx_models import classifier
from tests.server.driving import VALIDATION, begin, begun, packed, parquet, predictions
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, body_with, words
from tests.service.helpers import condition_spec, rows, small_spec

from easeml_meter.service.jobs import ThreadRunner
from easeml_meter.service.submissions import queue


class TestSubmitting:
    def test_answers_with_what_to_put_into_the_page(self, served: Served, tmp_path: Path) -> None:
        meter, labels = begun(served, tmp_path)
        visitor = Visitor(served, "developer")
        body = body_with(labels)
        answer = visitor.put_in(f"/meters/{meter}/submit", body, model="net")
        assert answer.status_code == 200
        said = words(answer)
        assert said.startswith(
            "1 Answer 1: band 1. Validation error 0 %: true error at most 30 %, 80 % sure. "
        )
        assert "3 answers left." in said
        replaced = re.findall(r'data-replace="(\w+)"', answer.text)
        assert replaced == [
            *("state", "session", "chart", "next", "history"),
            *("waiting", "handovers"),
        ]
        page = visitor.get(f"/meters/{meter}").text
        assert all(f'id="{each}"' in page for each in replaced)
        assert "net" in answer.text.partition('data-replace="history"')[2]
        again = visitor.put_in(f"/meters/{meter}/submit", body, model="net")
        assert "nothing was charged" in words(again)
        assert "Answers left 3 of 4" in words(visitor.get(f"/meters/{meter}"))

    def test_a_check_is_free(self, served: Served, tmp_path: Path) -> None:
        meter, labels = begun(served, tmp_path)
        visitor = Visitor(served, "developer")
        assert f'formaction="/meters/{meter}/check"' in visitor.get(f"/meters/{meter}").text
        said = words(visitor.put_in(f"/meters/{meter}/check", body_with(labels), model="net"))
        assert said.startswith("Checked, not submitted.")
        assert "Validation error: 0 %. Submitting it uses answer 1 of 4 from test set 1." in said
        assert said.endswith("Submit, use answer 1 of 4")
        assert "Answers left 4 of 4" in words(visitor.get(f"/meters/{meter}"))
        refused = Visitor(served, "labeler").put_in(f"/meters/{meter}/check", body_with(labels))
        assert refused.status_code == 403

    def test_says_that_others_are_compared_with_it(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter(condition_spec(question="better", tolerance=0.2))
        body, visitor = body_with(begin(served, meter, tmp_path)), Visitor(served, "developer")
        check = visitor.put_in(f"/meters/{meter}/check", body, model="net")
        assert 'name="baseline" value="true">Compare all others with it, for free<' in check.text
        refused = visitor.put_in(f"/meters/{meter}/submit", body, model="net")
        assert (refused.status_code, "no model to compare with" in refused.text) == (409, True)
        told = visitor.put_in(f"/meters/{meter}/submit", body, model="net", baseline="true")
        assert "baseline" in words(told)

    def test_of_a_runner_tells_no_signal(self, served: Served, tmp_path: Path) -> None:
        meter, labels = begun(served, tmp_path)
        answer = Visitor(served, "runner").put_in(
            f"/meters/{meter}/submit", body_with(labels), model="net"
        )
        assert words(answer).startswith("Submitted as number 1.")
        assert "band" not in answer.text

    def test_of_a_bad_file_costs_nothing(self, served: Served, tmp_path: Path) -> None:
        meter, labels = begun(served, tmp_path)
        visitor = Visitor(served, "developer")
        for body in (b"no tar", body_with(labels[1:]), packed(model_onnx=b"x")):
            answer = visitor.put_in(f"/meters/{meter}/submit", body, model="net")
            assert answer.status_code == 422
            assert words(answer).startswith("Something is not right.")
            assert "<html" not in answer.text
        assert "Answers left 4 of 4" in words(visitor.get(f"/meters/{meter}"))

    def test_needs_a_developer_or_runner_and_a_csrf_token(
        self, served: Served, tmp_path: Path
    ) -> None:
        meter = served.add_meter()
        body = body_with(begin(served, meter, tmp_path))
        codes = {
            user: Visitor(served, user)
            .put_in(f"/meters/{meter}/submit", body, model="net")
            .status_code
            for user in ("labeler", "admin", "stranger")
        }
        assert codes == {"labeler": 403, "admin": 403, "stranger": 404}
        visitor = Visitor(served, "developer")
        visitor.csrf = "0" * 64
        refused = visitor.put_in(f"/meters/{meter}/submit", body, model="net")
        assert refused.status_code == 403
        assert "load the page again" in words(refused)

    def test_of_a_model_waits_and_can_be_taken_back(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter(small_spec(models=True))
        begin(served, meter, tmp_path)
        visitor = Visitor(served, "developer")
        body = packed(model_onnx=classifier(np.eye(2, dtype="float32")))
        answer = visitor.put_in(f"/meters/{meter}/submit", body, model="net")
        assert "The model is waiting for its turn: queued." in words(answer)
        found = re.search(r'data-poll="([^"]+)"', answer.text)
        assert found is not None
        headers = {"HX-Request": "true"}
        assert "queued" in words(visitor.get(found[1], headers=headers))
        assert visitor.get(found[1]).headers["location"] == f"/meters/{meter}?tenant=1"
        page = visitor.get(f"/meters/{meter}")
        assert "net just now queued Withdraw" in words(page)
        taken = visitor.send(found[1].replace("?", "/cancel?"))
        assert taken.status_code == 303
        assert "It cost nothing." in words(visitor.get(f"/meters/{meter}"))
        assert visitor.get(found[1], headers=headers).status_code == 404

    def test_of_a_model_tells_the_answer_when_it_is_there(
        self, served: Served, tmp_path: Path
    ) -> None:
        meter = served.add_meter(small_spec(models=True))
        begin(served, meter, tmp_path)
        visitor = Visitor(served, "developer")
        told = {}
        for name, weights in (("good", np.eye(2, dtype="float32")), ("bad", None)):
            content = b"no model" if weights is None else classifier(weights)
            answer = visitor.put_in(
                f"/meters/{meter}/submit", packed(model_onnx=content), model=name
            )
            found = re.search(r'data-poll="([^"]+)"', answer.text)
            assert found is not None
            while ThreadRunner(served.site, queue.answering()).run_next():
                pass
            told[name] = visitor.get(found[1], headers={"HX-Request": "true"})
        assert "Answer 1: " in words(told["good"])
        assert words(told["bad"]).startswith("Refused, at no cost.")
        assert "bad just now refused" in words(visitor.get(f"/meters/{meter}"))

    def test_of_rows_in_another_order(self, served: Served, tmp_path: Path) -> None:
        meter, labels = begun(served, tmp_path, small_spec(inputs="public"))
        table = pa.table({"key": np.arange(len(labels))[::-1], "prediction": labels[::-1]})
        body = packed(test_parquet=parquet(table), validation_parquet=predictions(VALIDATION))
        visitor, path = Visitor(served, "developer"), f"/meters/{meter}/submit"
        assert "no column 'id'" in words(visitor.put_in(path, body, model="net", id_column=""))
        told = visitor.put_in(path, body, model="net", id_column="key")
        assert words(told).startswith("1 Answer 1: band 1.")


class TestValidation:
    def test_first_and_next(self, served: Served) -> None:
        meter = served.add_meter()
        visitor = Visitor(served, "developer")
        path = f"/meters/{meter}/validation"
        assert "None yet" in words(visitor.get(path))
        assert Visitor(served, "admin").get(path).status_code == 403
        content = parquet(rows(VALIDATION, seed=7))
        unnamed = visitor.put_in(path, content, suffix="parquet", label="")
        assert unnamed.status_code == 422
        first = visitor.put_in(path, content, suffix="parquet", label="label")
        assert words(first).startswith("Validation set 1 with 20 rows takes effect")
        assert "Number 1 Rows 20 rows" in words(
            first
        )  # the page shows it without being loaded again
        fresh = parquet(rows(VALIDATION[:10], seed=8))
        second = visitor.put_in(path, fresh, suffix="parquet", label="label")
        assert "Validation set 2 with 10 rows" in words(second)
        assert "Number 2 Rows 10 rows" in words(visitor.get(path))

    def test_of_scores_names_no_label_column(self, served: Served) -> None:
        meter = served.add_meter(small_spec(loss="score", classes=(), metric="exact match"))
        path = f"/meters/{meter}/validation"
        visitor = Visitor(served, "developer")
        table = pa.table({"id": [f"row {number}" for number in range(20)]})
        given = visitor.put_in(path, parquet(table), suffix="parquet", id_column="id")
        for said in (words(given), words(visitor.get(path))):
            assert "20 rows Id column id" in said
            assert "Label column" not in said

    def test_that_cannot_be_read(self, served: Served) -> None:
        meter = served.add_meter()
        visitor = Visitor(served, "developer")
        for suffix, body in (("csv", b"\0"), ("exe", b"x"), ("parquet", b"")):
            answer = visitor.put_in(
                f"/meters/{meter}/validation", body, suffix=suffix, label="label"
            )
            assert answer.status_code == 422
            assert "tmp" not in answer.text

    def test_is_for_developers(self, served: Served) -> None:
        meter = served.add_meter()
        for user in ("labeler", "runner", "admin"):
            answer = Visitor(served, user).put_in(
                f"/meters/{meter}/validation", b"", suffix="csv", label="label"
            )
            assert answer.status_code == 403
