"""Validation sets given by a browser."""

from __future__ import annotations

import pyarrow as pa
from tests.server.driving import VALIDATION, parquet
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import rows, small_spec


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
