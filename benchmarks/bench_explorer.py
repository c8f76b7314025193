"""The explorer on a large corpus against the sample alone, action by action; and for minutes in a browser.

Usage: python benchmarks/bench_explorer.py [--passages 20000] [--repeats 10] [--minutes 0] [--browser /usr/bin/chromium]

In Python, without a browser: the sample's passages and made-up ones, 60 to 120 of the sample's words each (Zipf, a
fixed seed), are explored in a process of their own; then the sample's alone, the peer. Printed of each action: the
first time, median and maximum of the repeats in ms, resident memory after it (Linux only); then ratios of medians. No
repeat asks what was asked before, and each must change what is shown. Made-up passages have random unit vectors, put
into the cache as if encoded: to encode 100,000 takes half an hour on two cores. All else is real: queries' vectors,
exact index, mmr, judge. All caches lie in a temporary folder.

With --minutes, the app is used in a browser (needs playwright and voila) by actions drawn at random, the seed fixed,
each waited for until its view is there. Printed are memory of the page's kernel, JavaScript heap after a collection and
DOM nodes at minute 0 (after 20 actions), 5, 10, … and the end; what they gained by the minute in the second half (read
every 30 s); the time from each kind of action to its view; errors of the console.
"""

import argparse
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from timing import mebibytes

import berdslib as bd
from berdslib.data.formats import write_passages
from berdslib.data.records import Passage
from berdslib.models.cards import model_card
from berdslib.models.encoders import get_encoder
from berdslib.models.vectors import CachedEncoder
from berdslib.study.explorer.session import AS_ASKED

SYSTEMS = ("bm25", "minilm+mmr:0.75")
ACTIONS = ("question", "system", "stance", "places", "passage", "typed", "order")
TOPICS = ["zoos", "exams", "cash", "boxing", "tipping", "fireworks", "lotteries", "tattoos", "private cars"]
TOPICS += ["school uniforms", "cruises", "drones", "night flights", "homework", "billboards", "pets", "skyscrapers"]


def made_up(passages, n):
    """Return n passages whose words are those of others, the k-th most frequent with a share of 1 / k."""
    rng = np.random.default_rng(0)
    counts = Counter(word for passage in passages for word in passage.text.split())
    words = np.array([word for word, _ in counts.most_common()], dtype=object)
    shares = np.cumsum(1 / np.arange(1, len(words) + 1))
    drawn = (words[np.searchsorted(shares, rng.random(length) * shares[-1])] for length in rng.integers(60, 121, n))
    return [Passage(f"made-up-{i}", " ".join(row), f"Made up, number {i}") for i, row in enumerate(drawn)]


def write_corpora(folder, n):
    """Write two corpora, small and large, each beside a cache that holds its vectors."""
    text_of, passages = model_card("minilm").passage_text, list(bd.load("sample").passages)
    more = made_up(passages, n - len(passages))
    write_passages(folder / "small.jsonl", passages)
    write_passages(folder / "large.jsonl", passages + more)
    real, rng = get_encoder("minilm", cached=False), np.random.default_rng(1)
    CachedEncoder(real, folder / "small" / "embeddings").encode_passages([text_of(p) for p in passages])

    def random_vectors(texts):
        vectors = rng.standard_normal((len(texts), 384), dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    stand_in = SimpleNamespace(id=real.id, encode_queries=real.encode_queries, encode_passages=random_vectors)
    shutil.copytree(folder / "small", folder / "large")
    CachedEncoder(stand_in, folder / "large" / "embeddings", chunk=10_000).encode_passages([text_of(p) for p in more])


class _Driven:
    def __init__(self, folder, name):
        self.weights = iter(random.Random(0).sample(range(1, 100), 99))
        start = time.perf_counter()
        data = bd.load("sample", passages=folder / f"{name}.jsonl", split="all")
        self.it = bd.explore(data, SYSTEMS)
        self.wait()
        print(f"  {'open':<10}{1000 * (time.perf_counter() - start):9.1f}{mebibytes():27,.0f}", flush=True)

    def wait(self):
        assert self.it.wait(600) and not self.it.status["problem"], self.it.status

    def ask(self, **change):
        self.it.request = {**self.it.request, **change}

    def prepared(self, name, turn):
        """Get ready for an action; return it, and what must be true of the view after it."""
        it = self.it
        qids = [qid for qid, _ in it.choices["questions"]]
        before = it.asked.qid or qids[0]
        qid = qids[(qids.index(before) + 1) % len(qids)]
        of_data = {"qid": qid, "typed": "", "perspectives": [], "asked": AS_ASKED}
        if name == "question":
            return partial(self.ask, **of_data), lambda view: view["question"]["qid"] == qid
        if name in ("stance", "passage"):  # of another question than the time before
            self.ask(**of_data)
            self.wait()
        if name == "system":
            system = f"minilm+mmr:{next(self.weights) / 100:g}"
            return partial(self.ask, systems=["bm25", system]), lambda view: view["lists"][1]["system"] == system
        if name == "stance":
            sides = it.session.question(it.asked).perspectives
            pid = turn % len(sides)
            return partial(self.ask, asked=pid), lambda view: view["asked"] == sides[pid]
        if name == "places":
            k = (*range(6, 21), 4, 3)[turn]
            return partial(self.ask, k=k), lambda view: [len(one["rows"]) for one in view["lists"]] == [k, k]
        if name == "passage":
            docno = it.view["lists"][turn % 2]["rows"][turn % 3]["docno"]
            return partial(it.open_passage, docno), lambda _: it.passage["docno"] == docno and it.passage["opinions"]
        if name == "typed":
            text = f"Should {TOPICS[turn]} be banned?"
            typed = {"qid": "", "typed": text, "asked": AS_ASKED}
            return partial(
                self.ask, **typed
            ), lambda view: view["question"]["text"] == text and view["lists"][1]["figures"]
        systems = ["bm25", f"minilm+mmr:{next(self.weights) / 100:g}"]
        self.ask(**of_data, systems=systems)
        return partial(it._on_message, None, {"do": "order"}, None), lambda _: it.differences["systems"] == systems

    def timed(self, name, turn):
        """Do an action and return its milliseconds; it must have changed what is shown, to what it should show."""
        do, is_right = self.prepared(name, turn)
        self.wait()
        before, start = self.shown(), time.perf_counter()
        do()
        self.wait()
        milliseconds = 1000 * (time.perf_counter() - start)
        assert self.shown() != before and is_right(self.it.view), f"{name} did not do what it should"
        return milliseconds

    def shown(self):
        return repr([self.it.view, self.it.passage, self.it.differences])


def use(folder, name, repeats):
    """Print what each action takes on one of the corpora; return the medians."""
    os.environ["BERDS_CACHE"] = str(folder / name)
    print(f"{name}; {mebibytes():,.0f} MiB before\n{'':12}{'first':>9}{'median':>9}{'maximum':>9}{'MiB':>9}")
    driven, medians = _Driven(folder, name), {}
    for action in ACTIONS:
        first, *warm = (driven.timed(action, turn) for turn in range(1 + repeats))
        medians[action] = float(np.median(warm))
        print(f"  {action:<10}{first:9.1f}{medians[action]:9.1f}{max(warm):9.1f}{mebibytes():9,.0f}", flush=True)
    for _ in range(3):  # once more, as by a cell that is run again
        driven = _Driven(folder, name)
    return medians


def by_action(n, repeats):
    with tempfile.TemporaryDirectory() as folder:
        write_corpora(Path(folder), n)
        with ProcessPoolExecutor(1, max_tasks_per_child=1) as processes:  # each corpus in one of its own
            large, small = processes.map(use, [Path(folder)] * 2, ("large", "small"), [repeats] * 2)
    ratios = (f"{name} {large[name] / small[name]:.1f}" for name in ACTIONS)
    print(f"medians with {n:,} passages, as multiples of those with the sample alone: {', '.join(ratios)}")


STATE = """() => {
  const find = (where) => document.querySelector(where), text = (where) => find(where)?.textContent ?? "";
  return {
    question: text(".berds h2"), system: text(".berds-head:nth-child(3) h3 bdi"), stance: text(".berds-asked"),
    k: document.querySelectorAll(".berds-head:first-child .berds-strip thead th").length - 1,
    passage: find(".berds-opinions") ? text(".berds-docno bdi") : "", close: !find(".berds-opened"),
    busy: !!find(".berds-status progress"), problem: text(".berds-problem"),
    order: [...document.querySelectorAll("option")].some((o) => o.text.endsWith("alike]")),
  };
}"""
IS_THERE = f"""([key, before, wanted]) => {{
  const now = ({STATE})();
  return !now.busy && (now.problem || (wanted === null ? now[key] !== before : now[key] === wanted));
}}"""
MENUS = {"question": "Question", "stance": "Search with", "order": "Order by"}


def serve(stack):
    """Start the app, until the stack is left; return the id of its process and its address once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-P", "-m", "berdslib.cli", "explore", "-q", "sample", "-r", ",".join(SYSTEMS)]
    command += ["--port", str(port), "--no-browser", "--idle", "3600"]
    environment, quiet = {**os.environ, "JUPYTER_TOKEN": "bench"}, subprocess.DEVNULL
    server = stack.enter_context(subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet))
    stack.callback(server.terminate)
    while server.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return server.pid, f"http://127.0.0.1:{port}/?token=bench"
        time.sleep(0.3)
    raise SystemExit("the app could not be started; berds explore says why")


def act(page, rng):
    """Do something that is possible now; return what, and the milliseconds until its view is there."""
    now = page.evaluate(STATE)
    others = page.locator(".berds-passage").evaluate_all(
        "(all, open) => all.some((one) => one.dataset.docno !== open)", now["passage"]
    )
    possible = [*MENUS, "system", "k", "typed", *["passage"] * others, *([] if now["close"] else ["close"])]
    name = rng.choice(possible)
    start = time.perf_counter()
    key, wanted = do(page, rng, name, now)
    page.wait_for_function(IS_THERE, arg=[key, now[key], wanted], timeout=60_000)
    milliseconds = 1000 * (time.perf_counter() - start)
    page.wait_for_timeout(100)
    page.wait_for_function(f"() => !({STATE})().busy")  # also with what cannot be seen
    assert not (problem := page.evaluate(STATE)["problem"]), f"{name}: {problem}"
    return name, milliseconds


def do(page, rng, name, now):
    """Do one thing; return the part of the state that it changes, and what to, None for anything else."""
    if name in MENUS:
        menu = page.get_by_label(MENUS[name], exact=True)
        n, at = menu.evaluate("(menu) => [menu.options.length, menu.selectedIndex]")
        menu.select_option(index=(at + rng.randrange(1, n)) % n)
    elif name == "system":
        system = f"minilm+mmr:{rng.randrange(1, 100) / 100:g}"
        page.get_by_label("Right system").fill(system)
        page.keyboard.press("Enter")
        return name, system
    elif name == "k":
        field = page.get_by_label("Places, k")
        k = rng.choice([k for k in range(3, 21) if k != now["k"]])
        field.fill(str(k))
        field.press("Enter")
        return name, k
    elif name == "passage":
        docnos = page.locator(".berds-passage").evaluate_all("(all) => all.map((one) => one.dataset.docno)")
        at = rng.choice([i for i, docno in enumerate(docnos) if docno != now["passage"]])
        page.locator(".berds-passage").nth(at).click()
        return name, docnos[at]
    elif name == "typed":
        text = f"Should {rng.choice([topic for topic in TOPICS if topic not in now['question']])} be banned?"
        page.get_by_label("My own question").fill(text)
        page.get_by_label("My own question").press("Enter")
        return "question", text
    else:
        page.get_by_role("button", name="Close (Esc)").click()
    return name, None


def in_browser(minutes, browser):
    from playwright.sync_api import sync_playwright

    errors, kernels, rows, times, rng = [], [], [], {}, random.Random(0)
    with ExitStack() as stack:
        (server, address), play = serve(stack), stack.enter_context(sync_playwright())
        page = play.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.on("console", lambda m: errors.append(f"{m.text} {m.location['url']}") if m.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("websocket", lambda one: kernels.extend(re.findall(r"kernels/([\w-]+)/", one.url)))
        page.goto(address)
        page.locator(".berds-passage").nth(9).wait_for(timeout=120_000)
        for _ in range(20):
            act(page, rng)
        children = [pid for t in Path(f"/proc/{server}/task").iterdir() for pid in (t / "children").read_text().split()]
        kernel = next(pid for pid in children if kernels[-1] in Path(f"/proc/{pid}/cmdline").read_text())
        tools, start = page.context.new_cdp_session(page), time.perf_counter()
        tools.send("Performance.enable")
        while not rows or rows[-1][0] < minutes:
            minute = (time.perf_counter() - start) / 60
            if minute >= min(minutes, len(rows) / 2):
                tools.send("HeapProfiler.collectGarbage")
                found = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
                memory = (mebibytes(pid=kernel), found["JSHeapUsedSize"] / 2**20, found["Nodes"])
                rows.append((minute, sum(map(len, times.values())), *memory))
            name, milliseconds = act(page, rng)
            times.setdefault(name, []).append(milliseconds)
    report(rows, times, [error for error in errors if not error.endswith("favicon.ico")])


def report(rows, times, errors):
    print(f"{'minute':>8}{'actions':>9}{'kernel, MiB':>13}{'heap, MiB':>11}{'nodes':>8}")
    for minute, actions, kernel, heap, nodes in sorted({*rows[::10], rows[-1]}):
        print(f"{minute:8.1f}{actions:9,}{kernel:13,.1f}{heap:11.2f}{nodes:8,}")
    half = np.array(rows[len(rows) // 2 - 1 :])
    kernel, heap, nodes = np.polyfit(half[:, 0], half[:, 2:], 1)[0]
    print(f"the second half, by the minute: kernel {kernel:+.2f} MiB, heap {heap:+.3f} MiB, nodes {nodes:+.1f}")
    print(f"  {'action':<10}{'times':>6}{'median':>9}{'95 %':>9}   (ms)")
    for name, taken in sorted(times.items()):
        print(f"  {name:<10}{len(taken):6}{np.median(taken):9.0f}{np.percentile(taken, 95):9.0f}")
    print(f"{len(errors)} errors in the console", *errors[:5], sep="\n  ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=20_000, help="of the large corpus; 0 for no corpus")
    parser.add_argument("--repeats", type=int, default=10, choices=range(1, 17), metavar="1-16", help="of each action")
    parser.add_argument("--minutes", type=float, default=0, help="of use in a browser; at least 1, 0 for none")
    parser.add_argument("--browser", help="a Chromium; none for that of playwright")
    options = parser.parse_args()
    if options.passages:
        by_action(options.passages, options.repeats)
    if options.minutes:
        in_browser(options.minutes, options.browser)
