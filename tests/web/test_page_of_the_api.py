"""What the guides to the JSON API and the page show in other languages works with a server."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.web.servers import running

pytestmark = pytest.mark.slow

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
ADDRESS = "http://127.0.0.1:8000/"


def test_requests_of_other_languages(tmp_path: Path) -> None:
    pages = ("json-api.md", "see-what-was-learnt.md")
    text = "\n".join((GUIDES / page).read_text(encoding="utf-8") for page in pages)
    requests = [["bash", "-c", line] for line in re.findall(r"^    (curl .*)$", text, re.MULTILINE)]
    scripts = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    requests += [["node", "--input-type=module", "-e", code] for code in scripts]
    assert len(requests) == 3
    answers = []
    with running(folder=tmp_path) as server:
        for command in requests:
            program = command[-1].split()[0] if command[0] == "bash" else command[0]
            if shutil.which(program) is None:
                continue
            asked = [part.replace(ADDRESS, server.address) for part in command]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "(TOP (S (NP (DT " in done.stdout
            answers.append(done.stdout)
    reply = re.search(r'^    (\{"tree": .*?)\n\n', text, re.DOTALL | re.MULTILINE)
    assert reply is not None
    names = set(re.findall(r'"(\w+)":', reply[1]))
    assert len(names) > 8
    assert any(names <= set(re.findall(r'"(\w+)":', answer)) for answer in answers)
