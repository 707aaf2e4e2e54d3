"""The page under a mixed load for hours: good, bad and heavy requests, with memory drawn.

python benchmarks/page_hours.py --hours 2 --out build/page     samples.csv, summary.json, memory.svg
python benchmarks/page_hours.py --hours 0.02 --rate 10         a minute of it
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import machine
import page

BYTES = {"Content-Type": "application/octet-stream"}
JSON = {"Content-Type": "application/json"}
TREE = "(TOP (S (NP (PRP they)) (VP (VBP sleep)) (. .)))"
TREES = "\n".join([TREE, "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"])
WRONG = (408, 422, 503)  # how a heavy or wrong request may be answered besides 200

# What values of a schema's texts are drawn from: right ones, and ones that made trouble once.
TEXTS = (
    "they sleep .", "the dog saw a man in the garden .", "<s> they sleep </s>", "<s>", "</s>",
    "<unk> <nothing>", TREE, "(S (NP", "((((", ")", "", " ", "x" * 3000, "a " * 200, "\x00",
    "\x1b[31m",
    "é\u202e", "\U0001f333",
    "1\tthey\t_\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\tsleep\t_\t_\t_\t_\t0\troot\t_\t_",
    "NP", "NN", "VP", "saw", "bundled", "bundled-mix", "bundled-spectral", "bundled-arcs",
    "bundled-text", "dep-i", "dep-ies", "pcfg-ie", "12", "123e1", "pairs", "viterbi", "max-rule",
    "../../etc/passwd",
)  # fmt: skip


class Request(NamedTuple):
    """One request, and how it may be answered."""

    method: str
    path: str
    content: bytes = b""
    headers: dict[str, str] | None = None
    statuses: tuple[int, ...] = (200, 503)
    leaves_after: float | None = None  # seconds after which the client hangs up


# -- requests by schema ---------------------------------------------------------------------------


# Probability of names that random values are almost always wrong for.
RARE = dict.fromkeys(("tags", "spans", "forbidden", "heads", "relations"), 0.1)


class BySchema:
    """Draws random requests of the API from its OpenAPI schema; training is left out.

    Parameters
    ----------
    texts
        The values of texts.
    """

    def __init__(
        self, openapi: dict[str, Any], rng: random.Random, texts: Sequence[str] = TEXTS
    ) -> None:
        self.paths, self.definitions = openapi["paths"], openapi["components"]["schemas"]
        self.rng, self.texts = rng, texts

    def request(self) -> Request:
        """A random request."""
        rng = self.rng
        path = rng.choice([path for path in self.paths if not path.startswith("/api/train")])
        method, facts = rng.choice(list(self.paths[path].items()))
        address = re.sub(r"\{\w+\}", lambda _: rng.choice(["bundled", "nothing", "x" * 300]), path)
        content = facts.get("requestBody", {}).get("content", {})
        begins = (202, 409) if "202" in facts["responses"] else ()  # one audit at a time
        allowed = (200, 400, 404, 408, 413, 415, 422, 503, *begins)
        if "application/json" in content:
            body = json.dumps(self.value(content["application/json"]["schema"])).encode()
            return Request(method.upper(), address, body, JSON, allowed)
        if content:
            text = "\n".join(rng.choices(self.texts, k=rng.randint(0, 5)))
            return Request(method.upper(), f"{address}?title=t", text.encode(), BYTES, allowed)
        return Request(method.upper(), address, b"", None, allowed)

    def value(self, schema: dict[str, Any]) -> Any:  # noqa: PLR0911 - one for each kind
        """A random value of a schema; now and then one that does not belong to it."""
        rng, kind = self.rng, schema.get("type")
        if rng.random() < 0.03:
            return rng.choice([None, True, -1, 1.5, 10**30, "", [], {}, ["a"], [1], {"a": 1}])
        if "$ref" in schema:
            return self.value(self.definitions[schema["$ref"].rsplit("/", 1)[1]])
        if "anyOf" in schema:
            return self.value(rng.choice(schema["anyOf"]))
        if "enum" in schema or "const" in schema:
            return rng.choice(schema.get("enum", [schema.get("const")]))
        if kind == "object":
            return self.members(schema)
        if kind == "array":
            if "prefixItems" in schema:  # a tuple
                return [self.value(one) for one in schema["prefixItems"]]
            least, most = schema.get("minItems", 0), min(schema.get("maxItems", 6), 6)
            return [self.value(schema["items"]) for _ in range(rng.randint(least, most))]
        if kind in {"integer", "number"}:
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            high = schema.get("maximum", schema.get("exclusiveMaximum", 1000))
            near = [low, low + 1, low + 2, low + 3, high, high + 1, low - 1]
            return rng.choice(near) if kind == "integer" else float(rng.choice(near))
        if kind == "boolean":
            return rng.random() < 0.5
        return None if kind == "null" else rng.choice(self.texts)

    def members(self, schema: dict[str, Any]) -> dict[str, Any]:
        """An object with almost all required names and some of the others."""
        required = set(schema.get("required", ()))
        return {
            name: self.value(facts)
            for name, facts in schema.get("properties", {}).items()
            if self.rng.random() < (0.98 if name in required else RARE.get(name, 0.5))
        }


# -- a mixed load ---------------------------------------------------------------------------------


def ask(path: str, *statuses: int, leaves: float | None = None, **question: Any) -> Request:
    """A question to the API."""
    body = json.dumps(question).encode()
    return Request("POST", f"/api/{path}", body, JSON, (*(statuses or (200,)), 503), leaves)


def light_requests() -> list[Request]:
    """Good ones as the page sends them, and wrong ones that are answered at once."""
    good = [
        Request("POST", f"/api/{path}", json.dumps(body).encode(), JSON)
        for path, body, weight in page.LOAD
        for _ in range(weight)
    ]
    files = [
        Request("GET", path) for path in ("/", "/parse", "/docs", "/static/main.js", "/api/models")
    ]
    many_keys = b"{" + b",".join(b'"k%d":1' % k for k in range(600_000)) + b"}"
    wrong = [
        ask("lm/surprise", 422, sentence="<s> the dog </s>"),
        ask("lm/next", 422, context="the </s>"),
        ask("parse", 422, sentence="x" * 900_000),
        ask("tree", 422, tree="(" * 900_000),
        ask("parse", 422, words=["a"] * 1000),
        ask("parse", 404, model="nothing", sentence="a"),
        Request("POST", "/api/parse", b"{", JSON, (400,)),
        Request("POST", "/api/parse", many_keys, JSON, (422,)),
        Request("POST", "/api/parse", b"x" * 9_000_000, JSON, (413,)),
        Request("GET", "/static/" + "x" * 300 + ".js", statuses=(404,)),
        Request("POST", "/api/parse", b"{}", {"Content-Type": "text/plain"}, (415,)),
        Request("GET", "/api/models", headers={"Host": "evil.example"}, statuses=(421,)),
    ]
    return good * 3 + files * 2 + wrong


def heavy_requests() -> list[Request]:
    """Some that take seconds, and some that take more than a request may."""
    spoilt, tiny = b"(S (NP oops\n" * 300_000, b"(S (X a))\n" * 400_000
    refused = (*WRONG, 200)
    return [
        ask("identify", family="pcfg-ie", words=4, length=4, states=3),
        ask("identify", *refused, family="pcfg-ie", words=6, length=6, states=5, moments="all"),
        ask("identify/table", words=2, states=2, length=3),
        ask("compare", models=["bundled", "bundled-spectral"], gold=f"{TREES}\n" * 20),
        ask("score", trees=f"{TREES}\n" * 200),
        ask("score", sentences=[page.TWENTY] * 100),
        ask("sample", n=200),
        ask("sample", 200, 408, leaves=0.2, n=500),
        ask("identify/table", 408, leaves=0.3, words=3, states=3, length=4),
        Request("POST", "/api/treebanks", (TREES + "\n").encode() * 1000, BYTES),
        Request("POST", "/api/treebanks", b"(" * 8_000_000, BYTES, refused),
        Request("POST", "/api/treebanks", spoilt, BYTES, refused, leaves_after=3.0),
        Request("POST", "/api/treebanks", tiny, BYTES, refused, leaves_after=3.0),
    ]


class Load:
    """A server under load, and what was seen of it."""

    def __init__(self, client: Any, process: int, rng: random.Random, out: Path) -> None:
        self.client, self.process, self.rng, self.out = client, process, rng, out
        self.began = perf_counter()
        self.light_times: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.unexpected: list[str] = []
        self.samples: list[tuple[float, float, float, int]] = []

    async def send(self, request: Request, *, is_light: bool) -> None:
        """Send a request, and note how it was answered."""
        began = perf_counter()
        call = self.client.request(
            request.method, request.path, content=request.content, headers=request.headers
        )
        try:
            answer = await asyncio.wait_for(call, request.leaves_after)
        except TimeoutError:
            self.statuses[0] += 1  # the client left
            return
        except Exception as error:
            if 413 in request.statuses:  # the server hung up before all of it was sent
                self.statuses[413] += 1
                return
            self.unexpected.append(f"{request.path[:60]}: {error!r}")
            return
        self.statuses[answer.status_code] += 1
        if is_light and answer.status_code == 200:
            self.light_times.append(perf_counter() - began)
        if answer.status_code not in request.statuses:
            head = request.content[:80].decode(errors="replace")
            self.unexpected.append(f"{request.path[:60]} {answer.status_code} {head}")

    async def send_half(self, port: int) -> None:
        """A client that leaves in the middle of its body."""
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = "POST /api/parse HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        await writer.drain()
        await asyncio.sleep(self.rng.random())
        writer.close()

    async def train(self) -> None:
        """Start a training, and cancel it."""
        question = {"method": "em", "states": 4, "dev": "none"}
        await self.send(ask("train", 202, 409, **question), is_light=False)
        await asyncio.sleep(5)
        await self.send(Request("DELETE", "/api/train", statuses=(200, 404)), is_light=False)

    def sample(self) -> None:
        """Note the memory of the server and of its processes, and write all that was seen."""
        mine = page.memory_mb(self.process)
        theirs = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == self.process:
                    theirs += page.memory_mb(int(stat.parent.name))
        row = (perf_counter() - self.began, mine, theirs, sum(self.statuses.values()))
        self.samples.append(row)
        with (self.out / "samples.csv").open("a", newline="") as file:
            csv.writer(file).writerow(row)
        if len(self.samples) % 60 == 0:
            self.write()

    def write(self, **more: object) -> dict[str, object]:
        """Write a summary and the drawing, and return the summary."""
        times, n = sorted(self.light_times) or [0.0], len(self.samples)
        # the first twentieth is left out: models are learnt when they are first used
        memory = [self.samples[k][1] for k in (n // 20, n // 2, n - 1)]
        facts = {
            "minutes": f"{self.samples[-1][0] / 60:.0f}",
            "requests": f"{sum(self.statuses.values()):,}",
            "answers by status (0: the client left)": str(dict(sorted(self.statuses.items()))),
            "unexpected answers": f"{len(self.unexpected)}",
            "p50 of light requests": f"{1000 * times[len(times) // 2]:.0f} ms",
            "p99 of light requests": f"{1000 * times[int(0.99 * len(times))]:.0f} ms",
            "memory of the server: start, middle, end":
                ", ".join(f"{x:.0f}" for x in memory) + " MB",
            "most memory of the server": f"{max(row[1] for row in self.samples):.0f} MB",
            "most memory of its processes": f"{max(row[2] for row in self.samples):.0f} MB",
        }  # fmt: skip
        facts |= more
        told = json.dumps(facts | {"unexpected": self.unexpected}, indent=1)
        (self.out / "summary.json").write_text(told)
        draw(self.samples, self.out / "memory.svg")
        return facts


async def run_load(
    address: str, process: int, out: Path, *, seconds: float, rate: float, seed: int
) -> Load:
    """Send requests at a rate, a heavy one every half minute, a training every ten minutes."""
    import httpx

    light, heavy = light_requests(), heavy_requests()
    options = {"timeout": 60, "limits": httpx.Limits(max_connections=None)}
    port = int(address.rsplit(":", 1)[1])
    async with httpx.AsyncClient(base_url=address, **options) as client:
        openapi = (await client.get("/api/openapi.json")).json()
        load = Load(client, process, random.Random(seed), out)
        by_schema = BySchema(openapi, load.rng)
        running: set[asyncio.Task[None]] = set()

        def start(work: Any) -> None:
            task = asyncio.ensure_future(work)
            running.add(task)
            task.add_done_callback(running.discard)

        next_heavy, next_train, next_half, next_sample = 5.0, 60.0, 10.0, 0.0
        while (now := perf_counter() - load.began) < seconds:
            if now >= next_sample:
                load.sample()
                next_sample += max(1.0, seconds / 720)
            if now >= next_heavy:
                start(load.send(load.rng.choice(heavy), is_light=False))
                next_heavy += 30.0
            if now >= next_train:
                start(load.train())
                next_train += 600.0
            if now >= next_half:
                start(load.send_half(port))
                next_half += 20.0
            is_random = load.rng.random() < 0.3
            request = by_schema.request() if is_random else load.rng.choice(light)
            start(load.send(request, is_light=not is_random))
            await asyncio.sleep(load.rng.expovariate(rate))
        if running:
            await asyncio.wait(running, timeout=60)
        load.sample()
    return load


def draw(samples: list[tuple[float, float, float, int]], file: Path) -> None:
    """Memory over time."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3), layout="constrained")
    minutes = [row[0] / 60 for row in samples]
    axes.plot(minutes, [row[1] for row in samples], label="server")
    axes.plot(minutes, [row[2] for row in samples], label="its processes", linewidth=0.8)
    axes.set(xlabel="minutes", ylabel="memory, MB", ylim=(0, None))
    axes.legend()
    figure.savefig(file)
    pyplot.close(figure)


def main() -> None:
    """Run the load, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=2.0, help="light requests a second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for samples.csv and memory.svg")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="page-"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "samples.csv").write_text("seconds,server_mb,processes_mb,requests\n")
    hurry = {"seconds": 3600 * options.hours, "rate": options.rate, "seed": options.seed}
    with page.server(log=out / "server.log") as (process, address):
        load = asyncio.run(run_load(address, process.pid, out, **hurry))
        cpu = page.cpu_seconds(process.pid)
    facts = load.write(**{"processor time of the server": f"{cpu:.0f} s"})
    machine.print_table(["what", "measured"], [[name, value] for name, value in facts.items()])
    print(f"drawn: {out / 'memory.svg'}")
    if load.unexpected:
        sys.exit("\n".join(load.unexpected[:20]))


if __name__ == "__main__":
    main()
