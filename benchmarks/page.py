"""The page: how soon it is there, how fast a parse is drawn, and what it stands.

python benchmarks/page.py         start, drawing (needs Chromium), latency, and a minute of load
python benchmarks/page.py --seconds 5 --parts load
python benchmarks/page.py --parts asking --model MODEL
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import machine

TWENTY = (
    "see the men that remembered them while the king can visit that boy with her new watch in "
    "Paris ."
)
SIXTY = (
    "they can like the flower behind every river after he bought it or knew the doctors like to "
    "eat a carrot with that light fork and let the neighbour and this baker love chairs , and the "
    "sailor sees your poet which the woman saw with the beard by the red garden or Max 's village "
    "of my fox !"
)
TWENTY_FIVE = (
    "the woman saw the kind king who gave a song to every cook with a hat in the garden and they "
    "hope that she slept"
)
MEMORY = "memory before, in the middle, after"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
LOAD = (
    ("parse", {"sentence": TWENTY, "k": 5}, 6),
    ("draw", {"sentence": TWENTY, "k": 10}, 6),
    ("parse", {"sentence": SIXTY}, 2),
    ("posteriors", {"sentence": TWENTY}, 2),
    ("state", {"symbol": "NP", "state": 3}, 2),
    ("states", {"label": "NN"}, 1),
    ("word", {"word": "saw"}, 2),
    ("score", {"sentences": [TWENTY] * 5}, 1),
    ("sample", {"n": 5}, 1),
    ("depend", {"sentence": TWENTY, "k": 3}, 2),
    ("parse", {"sentence": TWENTY, "spans": [[1, 3, "NP"]], "forbidden": [[13, 19, None]]}, 2),
    ("lm/surprise", {"sentence": TWENTY}, 1),
    ("surprisal", {"sentence": TWENTY}, 1),
    ("identify", {"family": "dep-i", "words": 3, "length": 3}, 1),
)


@contextmanager
def server(*options: str, log: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`sapwood serve`, as soon as it has printed its address; its stderr goes to a log."""
    command = [sys.executable, "-m", "sapwood", "serve", *options]
    with Path(log or os.devnull).open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip().rstrip("/")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            process.stdout.close()


def memory_mb(process: int) -> float:
    """Memory that a process holds now."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_seconds(process: int) -> float:
    """Processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- in a browser ---------------------------------------------------------------------------------


@contextmanager
def browser() -> Iterator[Any]:
    """A tab of a real Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield chromium.new_page(viewport={"width": 1280, "height": 900})
        chromium.close()


def measure_start(tab: Any, repeats: int) -> list[list[object]]:
    """Seconds from the command to an answer, and to a drawn tree in a browser that is open."""
    import urllib.request

    answers, trees, spent = [], [], []
    for _ in range(repeats + 1):
        began = perf_counter()
        with server() as (process, address):
            urllib.request.urlopen(f"{address}/parse", timeout=30).read()
            answers.append(perf_counter() - began)
            tab.goto(f"{address}/parse")
            tab.wait_for_selector("svg.sapwood-tree")
            trees.append(perf_counter() - began)
            spent.append(cpu_seconds(process.pid))
            tab.goto("about:blank")
    return [  # the first run may have to load everything from disk
        ["page answered", f"{statistics.median(answers[1:]):.2f} s"],
        ["first tree drawn", f"{statistics.median(trees[1:]):.2f} s"],
        ["CPU of the server until then", f"{statistics.median(spent[1:]):.2f} s"],
    ]


PRESS = """async (key) => {
  const input = document.querySelector('textarea'), place = document.querySelector('.figure');
  const drawn = new Promise((done) => new MutationObserver((_, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  }).observe(place, { childList: true }));
  const began = performance.now();
  input.value = key ? input.value + key : input.value.slice(0, -1);
  input.dispatchEvent(new Event('input'));
  return await drawn - began;
}"""
# A phrase over a few words is asked for, or the last one is taken back.
ASK = """async ([start, end, label]) => {
  const place = document.querySelector('.figure');
  const drawn = () => new Promise((done) => new MutationObserver((_, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  }).observe(place, { childList: true }));
  const words = [...document.querySelectorAll('.token')];
  const press = (key, shiftKey = false) => {
    const event = new KeyboardEvent('keydown', { key, shiftKey, bubbles: true });
    document.activeElement.dispatchEvent(event);
  };
  if (start === null) {
    const began = performance.now(), end = drawn();
    document.querySelector('.given .chip').click();
    return await end - began;
  }
  words.find((word) => word.tabIndex === 0).focus();
  press('Home');
  for (let k = 0; k < start; k++) press('ArrowRight');
  for (let k = start + 1; k < end; k++) press('ArrowRight', true);
  press('Enter');
  const form = document.querySelector('.wish');
  form.querySelector('input').value = label;
  const began = performance.now(), shown = drawn();
  form.requestSubmit();
  return await shown - began;
}"""
FRAMES = """async () => {
  const nodes = [...document.querySelectorAll('.node, .chart-cell')];
  const times = [];
  for (const node of nodes.slice(0, 120)) {
    const began = performance.now();
    node.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - began);
  }
  return times;
}"""


def measure_drawing(tab: Any, address: str, repeats: int) -> list[list[object]]:
    """Milliseconds from a key press to the frame that shows the tree; and of pointing at things."""
    from urllib.parse import quote

    rows: list[list[object]] = []
    for sentence in (TWENTY, SIXTY):
        n_words = len(sentence.split())
        tab.goto("about:blank")
        tab.goto(f"{address}/parse#s={quote(sentence)}")
        tab.wait_for_selector("svg.chart")
        times = []
        for key in (" ", "") * repeats:  # a blank changes nothing but the time
            times.append(tab.evaluate(PRESS, key))
            tab.wait_for_timeout(300)  # nobody types faster than that
        rows.append([f"key press to tree, {n_words} words", f"{statistics.median(times):.0f} ms"])
        frames = tab.evaluate(FRAMES)
        rows.append([f"pointing, {n_words} words", f"{statistics.median(frames):.0f} ms"])
        rows.append([f"pointing, {n_words} words, slowest", f"{max(frames):.0f} ms"])
    return rows


def measure_asking(tab: Any, address: str, repeats: int) -> list[list[object]]:
    """Milliseconds from asking for a phrase, or taking it back, to the frame with the tree."""
    from urllib.parse import quote

    n_words = len(TWENTY_FIVE.split())
    tab.goto("about:blank")
    tab.goto(f"{address}/parse#s={quote(TWENTY_FIVE)}")
    tab.wait_for_selector("svg.chart")
    tab.wait_for_timeout(2000)  # surprisal and members come behind the tree
    times = []
    for start, end, label in ((3, 6, "NP"), (13, 18, "NP"), (20, 24, "")) * repeats:
        for step in ([start, end, label], [None, None, ""]):
            times.append(tab.evaluate(ASK, step))
            tab.wait_for_timeout(400)
    return [
        [f"asking for a phrase, {n_words} words, median", f"{statistics.median(times):.0f} ms"],
        [f"asking for a phrase, {n_words} words, slowest", f"{max(times):.0f} ms"],
    ]


# -- load -----------------------------------------------------------------------------------------


async def one_client(client: Any, address: str, end: float, seed: int, seen: list[Any]) -> None:
    """Ask one question after the other; of a full queue, later."""
    rng = random.Random(seed)
    paths = [(path, body) for path, body, weight in LOAD for _ in range(weight)]
    while perf_counter() < end:
        path, body = rng.choice(paths)
        began = perf_counter()
        answer = await client.post(f"{address}/api/{path}", json=body)
        seen.append((path, answer.status_code, perf_counter() - began))
        if answer.status_code == 503:
            await asyncio.sleep(min(float(answer.headers["Retry-After"]), 1.0) * rng.random())


def measure_latency(repeats: int) -> list[list[object]]:
    """Milliseconds of a short parse on a connection that stays open."""
    import httpx

    question = {"sentence": "the dog sleeps ."}
    with server() as (_, address), httpx.Client(base_url=address, timeout=60) as client:
        times = []
        for _ in range(20 + repeats):
            began = perf_counter()
            client.post("/api/parse", json=question).raise_for_status()
            times.append(perf_counter() - began)
    middle = statistics.median(times[20:])  # the first ones load models and kernels
    return [["a short parse, connection kept open", f"{1000 * middle:.1f} ms"]]


def measure_load(clients: int, seconds: float) -> list[list[object]]:
    """Many clients at once, each asking as soon as it has an answer."""
    import httpx

    async def run(address: str, seconds: float, seen: list[Any]) -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            end = perf_counter() + seconds
            tasks = (one_client(client, address, end, k, seen) for k in range(clients))
            await asyncio.gather(*tasks)

    with server() as (process, address):
        asyncio.run(run(address, min(10.0, seconds), []))  # everything is learnt and compiled
        before = memory_mb(process.pid)
        seen: list[tuple[str, int, float]] = []
        asyncio.run(run(address, seconds / 2, seen))
        middle = memory_mb(process.pid)
        asyncio.run(run(address, seconds / 2, seen))
        after = memory_mb(process.pid)
    statuses = Counter(status for _, status, _ in seen)
    wrong = {status: n for status, n in statuses.items() if status not in {200, 503}}
    times = sorted(took for _, status, took in seen if status == 200)
    if wrong or not times:
        sys.exit(f"answers other than 200 and 503: {wrong}")
    return [
        [f"{clients} clients, {seconds:g} s: answers", f"{len(times):,}"],
        ["told to come back (503)", f"{statuses[503]:,}"],
        ["other errors", f"{sum(wrong.values())}"],
        ["p50", f"{1000 * times[len(times) // 2]:.0f} ms"],
        ["p99", f"{1000 * times[int(0.99 * len(times))]:.0f} ms"],
        [MEMORY, f"{before:.0f}, {middle:.0f}, {after:.0f} MB"],
    ]


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--parts", nargs="+", default=["start", "drawing", "asking", "latency", "load"]
    )
    parser.add_argument("--model", help="what phrases are asked of, if not the bundled grammar")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    rows: list[list[object]] = []
    if {"start", "drawing", "asking"} & set(options.parts):
        if shutil.which("chromium") is None:
            print("no Chromium here: start, drawing and asking are left out", file=sys.stderr)
        else:
            with browser() as tab:
                if "start" in options.parts:
                    rows += measure_start(tab, options.repeats)
                if "drawing" in options.parts:
                    with server() as (_, address):
                        rows += measure_drawing(tab, address, options.repeats)
                if "asking" in options.parts:
                    models = [options.model] if options.model else []
                    with server(*models) as (_, address):
                        rows += measure_asking(tab, address, options.repeats)
    if "latency" in options.parts:
        rows += measure_latency(40 * options.repeats)
    if "load" in options.parts:
        rows += measure_load(options.clients, options.seconds)
    machine.print_table(["what", "measured"], rows)


if __name__ == "__main__":
    main()
