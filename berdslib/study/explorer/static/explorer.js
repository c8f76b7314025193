// The explorer's face: draws views, which are plain data (berdslib/study/explorer/views.py).
//
// Texts of passages, questions and perspectives may be anybody's. They reach the page as text nodes only: nothing here
// parses HTML, and no attribute that a browser would follow or run is ever set from data.

const SVG = "http://www.w3.org/2000/svg";
const COPIES = "contains the perspective's own words; a judge says yes to that, whatever the rest says";
const WORDS = /([\p{L}\p{N}\p{M}_]+)/u;

/** Make an element; `attributes` are fixed names, children are elements or texts. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** A text of somebody's, kept apart from what surrounds it, whichever way it is written. */
const foreign = (text, tag = "bdi") => make(tag, { dir: "auto" }, text);

const written = ({ name, value }) =>
  value === null ? "–" : name === "leaning" ? value.toFixed(2) : `${(100 * value).toFixed(1)}%`;

function chip(perspective, title = true) {
  const mark = make("span", { class: "berds-chip" }, perspective.letter);
  mark.style.background = perspective.colour;
  mark.style.color = perspective.ink;
  if (title) mark.title = perspective.text;
  return mark;
}

/** A text with the words that matched in <mark>. */
function withMatches(text, words) {
  const matched = new Set(words);
  return text.split(WORDS).map((piece) => (matched.has(piece.toLowerCase()) ? make("mark", {}, piece) : piece));
}

/** The sentence or two with around the first match that stand in a list. */
function beginning(passage, words) {
  const at = passage.text.split(WORDS).reduce(
    (found, piece) => (found.done || words.includes(piece.toLowerCase()) ? { ...found, done: true } : { at: found.at + piece.length }),
    { at: 0 },
  );
  const start = at.done && at.at > 90 ? passage.text.lastIndexOf(" ", at.at - 40) + 1 : 0;
  const rest = passage.text.slice(start, start + 170);
  return (start ? "… " : "") + rest + (passage.text.length > start + 170 || passage.cut ? " …" : "");
}

// ---------------------------------------------------------------- parts of the face

function drawQuestion(view) {
  const asked = view.asked
    ? make("p", { class: "berds-asked" }, "Searched with this perspective alone: ", foreign(view.asked))
    : "";
  const searched = make("p", { class: "berds-hint" }, "Searched: the ", foreign(view.searched), ".");
  return make("header", {}, make("h2", {}, foreign(view.question.text)), searched, asked);
}

function drawLegend(view) {
  if (!view.perspectives.length) {
    const hint = "No perspectives, so nothing can be marked. Type some, one a line, and the lists are judged by them.";
    return make("p", { class: "berds-hint" }, hint);
  }
  const items = view.perspectives.map((one) =>
    make("li", {}, chip(one, false), " ", foreign(one.text), one.stance ? make("small", {}, ` (${one.stance})`) : ""),
  );
  return make("ul", { class: "berds-legend", "aria-label": "Perspectives" }, ...items);
}

/** What to see in ten seconds: which list hides what. */
function drawHeadline(view) {
  const known = view.perspectives.length && view.lists.every((one) => one.said || one.problem);
  const sentences = view.lists.filter((one) => known && !one.problem).map((one) => {
    const name = make("strong", {}, foreign(one.system));
    if (!view.recorded) return drawGuess(view, one, name);
    if (!one.hidden.length) return make("p", {}, make("span", { class: "berds-whole" }, "✓ "), name, " shows every perspective.");
    const hidden = one.hidden.flatMap((pid, i) => {
      const perspective = view.perspectives[pid];
      return [i ? " · " : " ", chip(perspective, false), " ", foreign(perspective.text)];
    });
    return make("p", {}, make("span", { class: "berds-hides" }, "✗ "), name, " hides", ...hidden);
  });
  for (const list of view.lists) {
    if (list.problem) sentences.push(make("p", {}, make("strong", {}, foreign(list.system)), " has no list; see below."));
  }
  const guess = ["By the guess of a model (", foreign(view.judge), "), which is often wrong, the first ", `${view.k} places:`];
  const lead = view.recorded ? [`In the first ${view.k} places:`] : guess;
  const where = sentences.length && view.judge ? [make("p", { class: "berds-hint" }, ...lead)] : [];
  return make("div", { class: "berds-headline" }, ...where, ...sentences);
}

/** The same by a model's guess, which proves nothing. */
function drawGuess(view, one, name) {
  const missed = one.hidden.flatMap((pid, i) => [i ? " · " : "", chip(view.perspectives[pid]), " "]);
  return make("p", {}, "? ", name, ...(missed.length ? [": nothing is marked for ", ...missed] : [": something is marked for every perspective."]));
}

/** Perspectives x ranks: a letter where that place argues that perspective, a dot where it does not. */
function drawStrip(view, list) {
  const ranks = Array.from({ length: view.k }, (_, i) => i + 1);
  const head = make("tr", {}, make("th", { scope: "col" }, make("span", { class: "berds-unseen" }, "perspective")),
    ...ranks.map((rank) => make("th", { scope: "col" }, String(rank))));
  const rows = view.perspectives.map((one, pid) => {
    const cells = ranks.map((rank) => {
      const row = list.rows[rank - 1];
      const cell = make("td", {}, row && row.argues.includes(pid) ? "✓" : "·");
      if (row && row.argues.includes(pid)) {
        cell.className = "berds-shows";
        cell.style.background = one.colour;
        cell.style.color = one.ink;
      }
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row" }, chip(one)), ...cells);
  });
  const caption = make("caption", { class: "berds-unseen" }, "Which perspective is argued at which rank");
  return make("table", { class: "berds-strip" }, caption, make("thead", {}, head), make("tbody", {}, ...rows));
}

function drawFigures(list) {
  const pairs = list.figures.map((one) =>
    make("div", { title: one.means }, make("dt", {}, one.name), make("dd", {}, written(one))),
  );
  return make("dl", { class: "berds-figures" }, ...pairs);
}

/** What is wrong in a line, and all of it for who wants to know. */
function drawProblem(problem) {
  const end = problem.search(/[.;:] |\n/);
  const short = end > 0 && problem.length > 140 ? `${problem.slice(0, Math.min(end, 140))} …` : problem;
  const line = make("p", { class: "berds-problem", role: "alert" }, foreign(short));
  if (short === problem) return line;
  const summary = make("summary", { "data-key": "problem" }, "Details, and what to do; or choose another system");
  return make("div", {}, line, make("details", { class: "berds-hint" }, summary, foreign(problem, "p")));
}

function drawHead(view, list, side) {
  const parts = [make("h3", {}, make("small", {}, side), " ", foreign(list.system))];
  if (list.problem) parts.push(drawProblem(list.problem));
  else if (list.searching) parts.push(make("p", { class: "berds-hint" }, "Searching …"));
  else {
    const pending = view.judged || !view.perspectives.length ? "" : "Judging what was found …";
    parts.push(make("p", { class: "berds-said" }, list.said || pending));
    if (list.note) parts.push(make("p", { class: "berds-hint" }, list.note));
    if (view.perspectives.length) parts.push(drawStrip(view, list), drawFigures(list));
  }
  return make("div", { class: "berds-head" }, ...parts);
}

/** Who marked the lists, how far that goes, and what the figures mean. */
function drawExplanation(view) {
  const doubt = view.recorded ? "; what nobody labelled counts as none." : ", a model: it is often wrong, so read a passage before you believe its mark.";
  const by = view.judge ? [make("p", { class: "berds-hint" }, "Marked by: ", foreign(view.judge), doubt)] : [];
  const figures = view.lists.find((list) => list.figures.length)?.figures ?? [];
  if (!figures.length) return make("div", {}, ...by);
  const meanings = figures.map((one) => make("li", {}, make("strong", {}, one.name), `: ${one.means}`));
  const summary = make("summary", { "data-key": "meanings" }, "What do the figures mean?");
  return make("div", {}, ...by, make("details", { class: "berds-hint" }, summary, make("ul", {}, ...meanings)));
}

function drawItem(view, list, row, place, column, act) {
  const passage = view.passages[row.docno];
  const argues = row.argues.map((pid) => chip(view.perspectives[pid]));
  const letters = row.argues.map((pid) => view.perspectives[pid].letter);
  const silent = view.judged && view.perspectives.length && !letters.length;
  const none = row.labelled ? "argues none" : "not labelled";
  const said = letters.length ? `argues ${letters.join(", ")}` : silent ? none : "not judged yet";
  const button = make(
    "button",
    {
      type: "button",
      class: "berds-passage",
      "data-key": `${column}:${row.docno}`,
      "data-docno": row.docno,
      "data-column": String(column),
      "data-place": String(place),
      onclick: () => act.open(row.docno, button),
    },
    make("span", { class: "berds-rank" }, String(place + 1)),
    make("span", { class: "berds-title" }, foreign(passage.title || `untitled, ${row.docno}`)),
    make("span", { class: "berds-chips" }, ...argues,
      view.perspectives.length ? make("span", { class: letters.length ? "berds-unseen" : "berds-none" }, said) : ""),
    make("span", { class: "berds-text", dir: "auto" }, ...withMatches(beginning(passage, view.words), view.words)),
    row.copies.length ? make("span", { class: "berds-only", title: COPIES }, `⚠ copies ${row.copies.map((pid) => view.perspectives[pid].letter).join(", ")}`) : "",
    row.only_here ? make("span", { class: "berds-only" }, "only here") : "",
  );
  return make("li", { class: silent ? "berds-silent" : "" }, button);
}

function drawList(view, list, column, act) {
  const items = list.rows.map((row, place) => drawItem(view, list, row, place, column, act));
  const label = `${column ? "Right" : "Left"} list: ${list.system}`;
  return make("ol", { class: "berds-list", "aria-label": label }, ...items);
}

/** Lines between places of the same passage, drawn where the items are. */
function drawLines(canvas, left, right) {
  canvas.replaceChildren();
  const frame = canvas.getBoundingClientRect();
  if (!frame.width) return;
  const middle = (button) => {
    const box = button.getBoundingClientRect();
    return box.top + box.height / 2 - frame.top;
  };
  const there = new Map([...right.querySelectorAll("button")].map((one) => [one.dataset.docno, one]));
  for (const button of left.querySelectorAll("button")) {
    const other = there.get(button.dataset.docno);
    if (!other) continue;
    const line = document.createElementNS(SVG, "line");
    const ends = { x1: 2, y1: middle(button), x2: frame.width - 2, y2: middle(other) };
    for (const [name, value] of Object.entries(ends)) line.setAttribute(name, String(value));
    line.dataset.docno = button.dataset.docno;
    canvas.append(line);
  }
}

/** A passage in full, with what labels and the reading judge say of each perspective. */
function drawOpened(view, opened, close) {
  const known = view.passages[opened.docno] || {};
  const text = opened.text ?? known.text ?? "";
  const title = (opened.title ?? known.title) || opened.docno;
  const parts = [
    make("h3", { tabindex: "-1", "data-key": "opened" }, foreign(title)),
    make("p", { class: "berds-docno" }, foreign(opened.docno), " · matched words are marked"),
    make("p", { class: "berds-full", dir: "auto", tabindex: "0" }, ...withMatches(text, view.words)),
  ];
  if (opened.problem) parts.push(make("p", { class: "berds-problem", role: "alert" }, foreign(opened.problem)));
  if (opened.opinions && opened.opinions.length) parts.push(drawOpinions(view, opened));
  else if (opened.asking) parts.push(make("p", { class: "berds-hint" }, "Asking the judge …"));
  parts.push(make("button", { type: "button", onclick: close }, "Close (Esc)"));
  return make("section", { class: "berds-opened", "aria-label": "Passage" }, ...parts);
}

function drawOpinions(view, opened) {
  const rows = opened.opinions.map((one, pid) => {
    const perspective = view.perspectives[pid];
    const bar = make("span", { class: "berds-bar" });
    const inner = make("span", {});
    inner.style.width = `${100 * one.p}%`;
    inner.style.background = perspective.colour;
    bar.append(inner);
    const label = one.label === null || one.label === undefined ? "no label" : one.label ? "✓ argues it" : "does not";
    return make("tr", {},
      make("th", { scope: "row" }, chip(perspective, false), " ", foreign(perspective.text)),
      ...(opened.labelled ? [make("td", {}, label)] : []),
      make("td", {}, bar, ` ${one.p.toFixed(2)}: ${one.says ? "yes" : "no"}, ${one.sure}`),
    );
  });
  const columns = ["perspective", ...(opened.labelled ? ["recorded verdict"] : [])];
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)),
    make("th", { scope: "col" }, "probability by ", foreign(opened.judge), ` (yes from ${opened.yes_from.toFixed(2)})`));
  return make("table", { class: "berds-opinions" }, make("thead", {}, head), make("tbody", {}, ...rows));
}

// ---------------------------------------------------------------- the whole face

/**
 * Show a view in an element, in place of what it showed before; focus stays where it was.
 * `act.open(docno)` is called when a passage is opened; `show.opened` is then what to show of it.
 */
export function face(root) {
  root.classList.add("berds");
  const body = make("div", {});
  root.append(body);
  let current = { view: null, opened: null, act: null };
  let lines = () => {};
  // A click is a press and a release on one button: what would be drawn in between is drawn after it.
  let pressed = false;
  let late = null;
  const press = (event) => { pressed = event.button === 0; };
  const release = () => setTimeout(() => {
    pressed = false;
    if (late) show(...late);
  });
  root.addEventListener("pointerdown", press);
  for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, release, true);
  const observer = new ResizeObserver(() => lines());
  observer.observe(body);

  function light(docno) {
    for (const one of root.querySelectorAll("[data-docno]")) one.classList.toggle("berds-lit", one.dataset.docno === docno);
  }
  const docnoAt = (event) => event.target.closest?.("[data-docno]")?.dataset.docno;
  for (const kind of ["focusin", "mouseover"]) root.addEventListener(kind, (event) => light(docnoAt(event)));

  // Arrows go from passage to passage: up and down in a list, left and right between them.
  root.addEventListener("keydown", (event) => {
    const close = root.querySelector(".berds-opened button");
    if (event.key === "Escape" && close) {
      event.stopPropagation();
      close.click();
      return;
    }
    const at = event.target.closest?.(".berds-passage");
    if (!at) return;
    const column = Number(at.dataset.column);
    const place = Number(at.dataset.place);
    const ways = { ArrowDown: [column, place + 1], ArrowUp: [column, place - 1], ArrowLeft: [0, place], ArrowRight: [1, place] };
    if (!ways[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    const [toColumn, toPlace] = ways[event.key];
    root.querySelector(`.berds-passage[data-column="${toColumn}"][data-place="${toPlace}"]`)?.focus();
  });

  function show(view, opened, act) {
    late = pressed ? [view, opened, act] : null;
    if (pressed) return;
    const before = current;
    current = { view, opened, act };
    const focused = root.contains(document.activeElement) ? document.activeElement?.dataset?.key : undefined;
    if (!view || !view.question) {
      body.replaceChildren(make("p", { class: "berds-hint" }, "Getting ready …"));
      return;
    }
    const lists = view.lists.map((list, column) => drawList(view, list, column, act));
    const canvas = document.createElementNS(SVG, "svg");
    canvas.setAttribute("aria-hidden", "true");
    canvas.setAttribute("class", "berds-lines");
    const [left, right] = view.lists;
    const grid = make("div", { class: "berds-lists" },
      drawHead(view, left, "left"), make("span", {}), drawHead(view, right, "right"), lists[0], canvas, lists[1]);
    const parts = [drawQuestion(view), drawHeadline(view), drawLegend(view), grid, drawExplanation(view)];
    for (const one of grid.querySelectorAll(".berds-passage")) {
      one.setAttribute("aria-expanded", String(one.dataset.docno === opened?.docno));
    }
    if (opened && opened.docno) parts.push(drawOpened(view, opened, () => act.close()));
    body.replaceChildren(...parts);
    lines = () => drawLines(canvas, lists[0], lists[1]);
    lines();
    if (opened && opened.docno && before.opened?.docno !== opened.docno) {
      const panel = root.querySelector(".berds-opened");
      panel.querySelector("h3").focus({ preventScroll: true });
      panel.scrollIntoView({ block: "center" });
    } else if (focused) {
      const same = [...root.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused);
      same?.focus({ preventScroll: true });
    }
  }

  show(null, null, null);
  return {
    show,
    /** Focus a passage's button again, as when it is closed. */
    focus(docno) {
      [...root.querySelectorAll(".berds-passage")].find((one) => one.dataset.docno === docno)?.focus();
    },
    end: () => {
      observer.disconnect();
      for (const kind of ["pointerup", "pointercancel"]) document.removeEventListener(kind, release, true);
    },
  };
}

// ---------------------------------------------------------------- in a notebook: the widget

function drawStatus(line, status, cancel) {
  const parts = [make("span", { class: status.problem ? "berds-problem" : "" }, foreign(status.problem || status.text || ""))];
  if (status.busy) {
    parts.push(make("progress", { "aria-label": "Busy" }));
    parts.push(make("button", { type: "button", onclick: cancel }, "Cancel"));
  }
  line.replaceChildren(...parts);
}

function drawKept(box, kept) {
  if (kept.problem) return box.replaceChildren(make("p", { class: "berds-problem", role: "alert" }, kept.problem));
  if (!kept.text) return box.replaceChildren();
  const code = make("pre", { tabindex: "0", "aria-label": kept.what }, kept.text);
  const copy = make("button", { type: "button", onclick: () => navigator.clipboard?.writeText(kept.text) }, "Copy");
  return box.replaceChildren(make("p", {}, kept.what), code, ...(kept.copy ? [copy] : []));
}

/** What has the focus in the explorer gets its keys: to JupyterLab an arrow would be a command of the notebook. */
function keepKeys(event) {
  if (event.target.closest?.(".berds-explorer")) event.target.setAttribute("data-lm-suppress-shortcuts", "true");
}

function render({ model, el }) {
  const line = make("div", { class: "berds-status", role: "status", "aria-live": "polite" });
  const place = make("div", {});
  const kept = make("div", { class: "berds-kept" });
  el.classList.add("berds");
  el.append(line, place, kept);
  const drawn = face(place);
  const act = {
    open: (docno) => model.send({ do: "open", docno }),
    close: () => {
      const docno = model.get("opened").docno;
      model.send({ do: "close" });
      drawn.focus(docno);
    },
  };
  const show = () => drawn.show(model.get("view"), model.get("opened"), act);
  const status = () => drawStatus(line, model.get("status"), () => model.send({ do: "cancel" }));
  const keep = () => drawKept(kept, model.get("kept"));
  document.addEventListener("focusin", keepKeys);
  model.on("change:view", show);
  model.on("change:opened", show);
  model.on("change:status", status);
  model.on("change:kept", keep);
  show();
  status();
  keep();
  model.send({ do: "shown" }); // a page that is still loading can miss what the kernel says meanwhile
  return () => {
    document.removeEventListener("focusin", keepKeys);
    model.off("change:view", show);
    model.off("change:opened", show);
    model.off("change:status", status);
    model.off("change:kept", keep);
    drawn.end();
  };
}

export default { render };
