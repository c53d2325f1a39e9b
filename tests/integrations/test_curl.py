"""The submission by curl in docs/server.md, run as it is there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.client.people import people_at
from tests.live import live

from easeml_meter import RemoteMeter

PAGE = Path(__file__).parents[2] / "docs" / "server.md"


@pytest.mark.slow
def test_curl_submits_as_documented(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"^```sh\n(curl --sil.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    block = block.replace(".csv", ".parquet").replace("/spam/", "/$METER_ID/")
    with live(tmp_path / "site") as site:
        for people in people_at(site, tmp_path, "curl-"):
            files = people.predictions(people.begin(), 0)
            assert isinstance(people.developer, RemoteMeter)
            for name, path in zip(("test", "validation"), files, strict=True):
                shutil.copy(path, tmp_path / f"{name}.parquet")
            environment = {
                **os.environ,
                "METER_SERVER": site.address,
                "METER_TOKEN": site.served.tokens["curl-developer"],
                "METER_ID": people.developer._id,
            }
            answers = [
                json.loads(
                    subprocess.run(
                        ["sh", "-ec", block], cwd=tmp_path, env=environment, stdout=-1, check=True
                    ).stdout
                )
                for _ in range(2)
            ]
            assert [each["signal"]["repeated"] for each in answers] == [False, True]
            assert answers[0]["signal"]["band"] == 1
