"""What the guide to the JSON API shows in other languages works against a real server."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.web.houses import running

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "json-api.md"
ADDRESS = "http://127.0.0.1:8000/"


def test_requests_of_other_languages(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    requests = [["bash", "-c", line] for line in re.findall(r"^    (curl .*)$", text, re.MULTILINE)]
    scripts = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    requests += [["node", "--input-type=module", "-e", code] for code in scripts]
    assert len(requests) == 2
    with running(folder=tmp_path) as server:
        for command in requests:
            program = command[-1].split()[0] if command[0] == "bash" else command[0]
            if shutil.which(program) is None:
                continue
            asked = [part.replace(ADDRESS, server.address) for part in command]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "(TOP (S (NP (DT " in done.stdout
