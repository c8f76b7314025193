"""The explorer as people use it: in JupyterLab and as an app, in a real browser, step by step."""

import json
import os
import re
import sys
import time
from contextlib import contextmanager

import pandas as pd
import pytest
from browser import chromium, free_port, lab, needs_chromium, ran, run_first_cell, served, settle
from payloads import ALL, DECEIVING, RUNNING
from shell import berds

expect = pytest.importorskip("playwright.sync_api", reason="needs playwright").expect

pytestmark = [needs_chromium, pytest.mark.slow]
CELL = "import berdslib as bd\n\nexplorer = bd.explore('sample')\nexplorer"


@contextmanager
def app(folder, **settings):
    """Serve the app; yield its address."""
    port, token = free_port(), "token-of-a-test"
    options = f"port={port}, host='127.0.0.1', browser=False, idle=600"
    code = f"from berdslib.study.explorer.app import serve; serve({settings!r}, {options})"
    command, base = [sys.executable, "-P", "-c", code], f"http://127.0.0.1:{port}/"
    with served(command, f"{base}voila/static/", {**os.environ, "JUPYTER_TOKEN": token}, folder / "app.log"):
        yield f"{base}?token={token}"


def listed(page):
    """Return the docnos of both lists."""
    docnos = "lists => lists.map(one => [...one.querySelectorAll('button')].map(button => button.dataset.docno))"
    return page.locator(".berds-list").evaluate_all(docnos)


def systems(page):
    return page.locator(".berds-head h3 bdi").all_inner_texts()


def changed(page, before):
    """Wait until the lists are others than before, and return them."""
    for _ in range(400):
        if (now := listed(page)) != before:
            return now
        time.sleep(0.02)
    raise AssertionError("the lists stayed as they were")


def go_through(page):
    """Choose, type a system, flip the stance, open a passage, type a question, order, save."""
    settle(page)
    assert systems(page) == ["bm25", "minilm"]
    assert [len(one) for one in listed(page)] == [5, 5]
    before = listed(page)
    page.get_by_label("Question", exact=True).select_option(index=3)
    before = changed(page, before)
    settle(page)

    right = page.get_by_label("Right system")
    right.fill("minilm+mmr:2")
    page.keyboard.press("Enter")
    page.locator(".berds-wrong .berds-problem").wait_for()
    assert listed(page) == before and right.get_attribute("aria-invalid") == "true"
    right.fill("minilm+mmr:0.35")
    page.keyboard.press("Enter")
    now = changed(page, before)
    settle(page)
    assert systems(page) == ["bm25", "minilm+mmr:0.35"] and listed(page)[0] == before[0]
    assert page.locator(".berds-wrong .berds-problem").count() == 0
    suggested = "input => [...input.list.options].map(option => option.value)"
    assert {"bm25", "minilm+msd:0.75", "minilm+pap"} <= set(right.evaluate(suggested))

    page.get_by_label("Search with").select_option(index=2)
    page.locator(".berds-asked").wait_for()
    settle(page)
    assert listed(page) != now

    button = page.locator(".berds-list").first.locator("button").nth(1)
    docno = button.get_attribute("data-docno")
    button.focus()
    page.keyboard.press("Enter")
    page.locator(".berds-opinions").wait_for()
    assert page.evaluate("document.activeElement.closest('.berds-opened') !== null")
    assert re.search(r"0\.\d\d: (yes|no)", page.locator(".berds-opinions").inner_text())
    page.keyboard.press("Escape")
    page.locator(".berds-opened").wait_for(state="detached")
    assert page.evaluate("document.activeElement.dataset.docno") == docno

    page.get_by_label("My own question").fill("Should schools ban phones?")
    page.keyboard.press("Enter")
    page.locator("h2", has_text="Should schools ban phones?").wait_for()
    page.locator(".berds-legend", has_text="Schools should not ban phones.").wait_for()
    settle(page)
    page.get_by_label("Its perspectives").fill("")
    page.keyboard.type("Phones help pupils learn.")
    page.keyboard.press("Enter")  # a line break, which JupyterLab prevents in a cell's outputs
    page.keyboard.type("Phones distract.")
    page.keyboard.press("Tab")
    for typed in ("Phones help pupils learn.", "Phones distract."):
        page.locator(".berds-legend", has_text=typed).wait_for()
    settle(page)

    page.get_by_label("Order by").select_option("differences")
    page.locator("option", has_text="MRecall").first.wait_for(state="attached")
    settle(page)
    page.locator("h2", has_text="phones").wait_for(state="detached")

    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    assert len(download.value.path().read_text().splitlines()) > 10


def violations(page):
    from axe_playwright_python.sync_playwright import Axe

    return [
        (one["id"], [node["html"][:150] for node in one["nodes"]]) for one in Axe().run(page).response["violations"]
    ]


def go_to(page, address, folder):
    """Open the app and wait for both lists; where they stay away, say what stands there instead."""
    page.goto(address)
    try:
        page.locator(".berds-list button").nth(9).wait_for()
    except Exception as error:
        log = (folder / "app.log").read_text(errors="replace")
        raise AssertionError(f"{page.locator('body').inner_text()}\n{page.problems}\n{log[-3000:]}") from error


def test_the_app_step_by_step(tmp_path, warm_cache):
    with app(tmp_path, questions=["sample"]) as address, chromium() as page:
        go_to(page, address, tmp_path)
        go_through(page)
        assert violations(page) == []
        assert page.others == []
        assert page.problems == []
        page.goto(address.replace("?", "no/such/page?"))  # what goes wrong asks nobody else either
        assert page.others == []


def test_jupyterlab_step_by_step(tmp_path, warm_cache):
    with lab(tmp_path, CELL) as address, chromium() as page:
        run_first_cell(page, address)
        go_through(page)
        assert page.others == []


def test_by_keyboard_alone(tmp_path, warm_cache):
    """Tab reaches every control and every passage, in the order of the page, and nothing holds it."""
    with app(tmp_path, questions=["sample"]) as address, chromium() as page:
        go_to(page, address, tmp_path)
        settle(page)
        seen = []
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.append(
                page.evaluate(
                    "(a => a.dataset.key || a.labels?.[0]?.textContent.trim() || a.getAttribute('aria-label') ||"
                    " a.textContent.trim())(document.activeElement)"
                )
            )
            if seen[-1] == "Save as CSV":
                break
        keys = [f"{column}:{docno}" for column, docnos in enumerate(listed(page)) for docno in docnos]
        assert [one for one in seen if re.match("[01]:", one)] == keys
        wanted = ["Order by", "Question", "My own question", "Search with", "Left system", "Right system", "Places, k"]
        wanted += [*keys, "Save as CSV"]
        assert [one for one in seen if one in wanted] == wanted


def test_what_a_loading_page_misses_is_said_again(tmp_path, warm_cache):
    """Nothing of the kernel's that is said before the face is drawn reaches it here, as on a very busy machine."""
    ready = []

    def connect(socket):
        kernel = socket.connect_to_server()

        def to_page(message):
            data = message if isinstance(message, bytes) else message.encode()
            if ready or b'"view":' not in data.replace(b'": ', b'":') or b'"update_states"' in data:
                socket.send(message)

        def to_kernel(message):
            data = message if isinstance(message, bytes) else message.encode()
            kernel.send(message)
            if b'"shown"' in data:
                ready.append(True)

        kernel.on_message(to_page)
        socket.on_message(to_kernel)

    with app(tmp_path, questions=["sample"]) as address, chromium() as page:
        page.route_web_socket("**", connect)
        go_to(page, address, tmp_path)
        assert ready


# ---------------------------------------------------------------- hostile texts


@pytest.fixture
def hostile(tmp_path):
    """Questions, perspectives, titles and texts that are all payloads: every payload in each of the four places."""
    n = len(ALL)
    questions = [
        {
            "qid": f"q{i}",
            "question": f"{text} zoos",
            "perspectives": [ALL[(i + 1) % n], ALL[(i + 2) % n], f"zoos {ALL[(i + 3) % n]}"],
        }
        for i, text in enumerate(ALL)
    ]
    passages = [{"id": f"d{i}", "title": text, "text": f"zoos {ALL[(i + 7) % n]} {text}"} for i, text in enumerate(ALL)]
    for name, rows in (("questions", questions), ("passages", passages)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def settings(hostile):
    files = {"questions": [str(hostile / "questions.jsonl")], "corpus": str(hostile / "passages.jsonl")}
    return {**files, "systems": ["bm25", "bm25+expand:rule"], "judge": "overlap", "k": 20}


def look_at_everything(page, hostile):
    """Choose every question, open a passage of each, and read what the page says as text."""
    menu = page.get_by_label("Question", exact=True)
    for i in range(len(ALL)):
        menu.select_option(value=None, index=i)
        page.wait_for_function(
            f"document.querySelector('.berds h2')?.textContent.includes({json.dumps(shown(ALL[i]))})"
        )
        if i % 9 == 0:
            settle(page)
            page.locator(".berds-list button").nth(i % 11).click()
            page.locator(".berds-opinions").wait_for()
            page.mouse.move(300, 500)
    seen = page.locator("body").inner_text()
    for text in DECEIVING.values():
        assert text not in seen


def shown(text):
    from berdslib.study.explorer.views import visible

    return visible(" ".join(text.split()))


@contextmanager
def in_the_app(given, folder, page):
    with app(folder, **given) as address:
        page.goto(address)
        page.locator(".berds-list button").first.wait_for()
        yield


@contextmanager
def in_jupyterlab(given, folder, page):
    cell = (
        "import berdslib as bd\n"
        f"data = bd.load({given['questions'][0]!r}, passages={given['corpus']!r})\n"
        f"explorer = bd.explore(data, {given['systems']!r}, judge='overlap', k=20)\nexplorer"
    )
    with lab(folder, cell) as address:
        run_first_cell(page, address)
        yield


@pytest.mark.parametrize("opened", [in_the_app, in_jupyterlab])
def test_nothing_of_a_text_runs(hostile, warm_cache, opened):
    with chromium() as page, opened(settings(hostile), hostile, page):
        look_at_everything(page, hostile)
        assert ran(page) == 0
        would_see(page)


def test_nothing_of_a_text_runs_in_an_exported_page(hostile, warm_cache):
    given, page_file = settings(hostile), hostile / "lists.html"
    options = ["-c", given["corpus"], "-r", ",".join(given["systems"]), "-j", "overlap", "-k", 20, "-o", page_file]
    berds("explore", "-q", given["questions"][0], *options)
    with chromium(offline=True) as page:
        page.goto(page_file.as_uri())
        menu = page.get_by_label("Question", exact=True)
        for i in range(len(ALL)):
            menu.select_option(index=i)
            assert shown(ALL[i]) in page.locator(".berds h2").text_content()
            page.get_by_label("Search with").select_option(index=1 + i % 3)
            page.locator(".berds-list button").nth(i % 20).click()
            page.locator(".berds-opinions").wait_for()
        page.get_by_label("Order by").select_option(index=1)
        assert not any(text in page.locator("body").inner_text() for text in DECEIVING.values())
        assert violations(page) == []
        assert ran(page) == 0
        insert(page)  # the page's own policy stops scripts and handlers even there
        assert page.hits == []
    # Without the policy the same page would be seen to run them.
    open_page = hostile / "open.html"
    open_page.write_text(page_file.read_text().replace("Content-Security-Policy", "X-Nothing"))
    with chromium(offline=True) as page:
        page.goto(open_page.as_uri())
        page.locator(".berds-list button").first.wait_for()
        assert ran(page) == 0  # what protects first is that texts are never markup
        would_see(page)


def test_a_copied_perspective_is_marked_in_the_page(tmp_path):
    import berdslib as bd
    from berdslib.study.explorer.export import export_page
    from berdslib.study.explorer.session import Session, ViewRequest

    question = bd.Question("zoos", "Close zoos?", ("Zoos should be closed.", "Zoos should stay open."))
    passages = [bd.Passage("a", "It is false that zoos should be closed."), bd.Passage("b", "Zoos close at six.")]
    session = Session(bd.Collection("toy", [question], passages), judge=lambda pairs: [0.9 for _ in pairs])
    export_page(tmp_path / "lists.html", session, ViewRequest("zoos", systems=("bm25", "bm25+expand:rule"), k=2))
    with chromium(offline=True) as page:
        page.goto((tmp_path / "lists.html").as_uri())
        page.locator(".berds-list button").first.wait_for()
        marked = page.locator('[title^="contains the perspective\'s own words; a judge says yes to that"]')
        assert marked.all_inner_texts() == ["⚠ copies A"] * 2  # in either list, and nothing else
        assert page.locator("[data-docno=a]", has=marked).count() == 2


def test_a_click_counts_though_the_lists_are_drawn_anew_meanwhile(tmp_path):
    """As on a slow machine, where verdicts arrive between the press and the release."""
    page_file = tmp_path / "lists.html"
    berds("explore", "-q", "sample", "-r", "bm25,rank-bm25", "-j", "overlap", "-o", page_file)
    again = "[...document.querySelectorAll('select')].at(-1).dispatchEvent(new Event('change'))"
    with chromium(offline=True) as page:
        page.goto(page_file.as_uri())
        button = page.locator(".berds-list button").nth(3)
        button.scroll_into_view_if_needed()
        button.evaluate("button => { window.before = button; }")
        box = button.bounding_box()
        page.mouse.move(box["x"] + 20, box["y"] + 10)
        page.mouse.down()
        page.evaluate(again)
        page.mouse.up()
        page.locator(".berds-opinions").wait_for(timeout=5_000)
        page.evaluate(again)  # with nothing pressed it is drawn at once, in new elements
        assert not page.evaluate("window.before.isConnected")
        button.evaluate("button => { window.before = button; }")
        page.mouse.down(button="right")  # a menu of the browser's, after which no release may be told
        page.evaluate(again)
        assert not page.evaluate("window.before.isConnected")
        page.mouse.up(button="right")
        assert page.problems == []


def test_the_page_says_what_the_app_says(tmp_path, warm_cache):
    """Opened from disk with the network off: menus, stance, passage, keys, CSV."""
    page_file = tmp_path / "lists.html"
    berds("explore", "-q", "sample", "--split", "all", "-r", "bm25,minilm", "--question", "k03", "-o", page_file)
    assert page_file.stat().st_size < 500_000
    with chromium(offline=True) as page:
        page.goto(page_file.as_uri())
        page.locator(".berds-list button").nth(9).wait_for()
        from berdslib.data.datasets import load
        from berdslib.study.explorer.session import Session, ViewRequest

        session = Session(load("sample", split="all"))
        for asked in (-1, 0, 3):
            page.get_by_label("Search with").select_option(value=str(asked))
            view = list(session.render_steps(ViewRequest("k03", asked=asked)))[-1]
            assert listed(page) == [[row["docno"] for row in one["rows"]] for one in view["lists"]]
            figures = page.locator(".berds-figures dd").all_inner_texts()
            assert figures == [f"{100 * one['value']:.1f}%" for both in view["lists"] for one in both["figures"]]
        page.get_by_label("Order by").select_option(index=1)
        assert "MRecall" in page.get_by_label("Question", exact=True).evaluate("menu => menu.selectedOptions[0].text")
        page.locator(".berds-list button").first.click()
        assert "recorded verdict" in page.locator(".berds-opinions").inner_text()
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.column + document.activeElement.dataset.place") == "11"
        page.get_by_label("Search with").select_option(value="0")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as CSV").click()
        saved = pd.read_csv(download.value.path())
        assert list(saved) == ["system", "rank", "docno", "pid", "supports", "marked_by", "searched_with"]
        (asked,) = set(saved["searched_with"])
        assert page.locator(".berds-asked").inner_text().endswith(f": {asked}")
        assert violations(page) == []
        assert page.others == page.problems == []


def would_see(page):
    """The same texts as HTML in the same page do run, and that is seen."""
    insert(page)
    for _ in range(40):  # a busy machine takes its time
        if len(page.hits) > 15 and page.others:
            break
        page.wait_for_timeout(500)
    assert len(page.hits) > 15
    assert page.others


def insert(page):
    texts = [text for text in RUNNING if "http-equiv" not in text]  # it would leave the page
    markup = (
        "texts => texts.forEach(text => document.body.append(document.createRange().createContextualFragment(text)))"
    )
    page.evaluate(markup, texts)
    page.wait_for_timeout(500)
