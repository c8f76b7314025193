// The explorer's face: draws views, which are plain data (berdslib/study/explorer/views.py).
//
// Texts of passages, questions and perspectives may be anybody's. They reach the page as text nodes only: nothing here
// parses HTML, and no attribute that a browser would follow or run is ever set from data.

const SVG = "http://www.w3.org/2000/svg";
const COPIES = "contains the perspective's own words; a judge says yes to that, whatever the rest says";
const WORDS = /([\p{L}\p{N}\p{M}_]+)/u;
const QUESTION = -1; // searched with the question, not with one of its perspectives

/** Make an element; `attributes` are fixed names, children are elements or texts. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A text of somebody's, kept apart from what surrounds it, whichever way it is written. */
const foreign = (text, tag = "bdi") => make(tag, { dir: "auto" }, text);

const hint = (...children) => make("p", { class: "berds-hint" }, ...children);

function coloured(element, perspective) {
  element.style.background = perspective.colour;
  element.style.color = perspective.ink;
  return element;
}

function chip(perspective) {
  const mark = coloured(make("span", { class: "berds-chip" }, perspective.letter), perspective);
  mark.title = perspective.text;
  return mark;
}

/** A text with the words that matched in <mark>. */
function withMatches(text, words) {
  const matched = new Set(words);
  return text.split(WORDS).map((piece) => (matched.has(piece.toLowerCase()) ? make("mark", {}, piece) : piece));
}

/** The sentence or two around the first match that stand in a list. */
function beginning(passage, words) {
  const pieces = passage.text.split(WORDS);
  const first = pieces.findIndex((piece) => words.includes(piece.toLowerCase()));
  const at = pieces.slice(0, Math.max(first, 0)).join("").length;
  const start = at > 90 ? passage.text.lastIndexOf(" ", at - 40) + 1 : 0;
  const end = start + 170;
  const more = passage.text.length > end || passage.cut;
  return (start ? "… " : "") + passage.text.slice(start, end) + (more ? " …" : "");
}

// ---------------------------------------------------------------- what is asked

/** A control under its label. */
function field(label, control, ...more) {
  control.id = `berds-${Math.random().toString(36).slice(2)}`;
  return make("div", { class: "berds-field" }, make("label", { for: control.id }, label), control, ...more);
}

const edited = new WeakSet(); // controls in which a reader has typed something and not yet left or pressed Enter

/** A control that calls `change` with its value when a reader has changed it. */
function control(tag, attributes, change) {
  const made = make(tag, attributes);
  let entered = null; // what Enter has taken
  made.addEventListener("input", () => edited.add(made));
  made.addEventListener("change", () => {
    edited.delete(made);
    if (made.value !== entered) change(made.value);
    entered = null;
  });
  // In JupyterLab an input has no "change" event when Enter is pressed, only when it is left.
  made.addEventListener("keydown", (event) => {
    if (tag !== "input" || event.key !== "Enter" || !edited.delete(made)) return;
    entered = made.value;
    change(entered);
  });
  return made;
}

/** Show a value in a control, unless somebody is typing there. */
function put(control, value) {
  if (!edited.has(control)) control.value = value;
}

function putOptions(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  select.value = chosen;
}

/** The field of a system: text with suggestions, and beside it what is wrong with the text. */
function systemField(label, suggestions, change) {
  const input = control("input", { autocomplete: "off", spellcheck: "false" }, (text) => change(text.trim()));
  const options = make("datalist");
  const problem = make("div", { class: "berds-wrong" });
  const box = field(label, input, options, problem);
  options.id = `${input.id}-options`;
  problem.id = `${input.id}-problem`;
  input.setAttribute("list", options.id);
  input.setAttribute("aria-describedby", problem.id);
  const suggest = () => {
    const before = input.value.replace(/\+[^+]*$/, "") || suggestions.first[0];
    const isDense = suggestions.dense.includes(before.split("+")[0]);
    const parts = [...suggestions.parts, ...(isDense ? suggestions.projections : [])];
    const following = parts.map((part) => `${before}+${part}`);
    options.replaceChildren(...[...suggestions.first, ...following].map((value) => make("option", { value })));
  };
  for (const event of ["focus", "input"]) input.addEventListener(event, suggest);
  const show = (system, wrong) => {
    put(input, system);
    input.setAttribute("aria-invalid", String(Boolean(wrong)));
    problem.replaceChildren(...(wrong ? [drawProblem(wrong)] : []));
  };
  return { box, show };
}

/**
 * The controls above the lists. `ask(change)` gets the fields of a request that a reader changed; `compare()` is called
 * for the questions in the order of their differences. `choices` are the questions, and what is suggested for systems;
 * a page whose lists are made has none of the latter, and neither systems nor a question to type.
 */
function form(root, choices, ask, compare) {
  let byDifference = false;
  let last = null;
  const order = control("select", {}, (value) => {
    byDifference = value === "differences";
    if (byDifference) compare();
    show(last);
  });
  const question = control("select", {}, (qid) => qid && ask({ qid, typed: "", perspectives: [], asked: QUESTION }));
  const asked = control("select", {}, (pid) => ask({ asked: Number(pid) }));
  putOptions(order, [["data", "in the order of the data"], ["differences", "where the lists differ most"]], "data");
  const shows = [];
  root.append(field("Order by", order), field("Question", question));
  if (choices.first) {
    const typed = control("input", { placeholder: "type a question and press Enter" }, (text) => {
      if (text.trim()) ask({ qid: "", typed: text.trim(), perspectives: [], asked: QUESTION });
    });
    const lines = control("textarea", { rows: 3, placeholder: "one per line" }, (text) => {
      ask({ perspectives: text.split("\n").map((line) => line.trim()).filter(Boolean), asked: QUESTION });
    });
    lines.addEventListener("keydown", (event) => {  // JupyterLab prevents line breaks inside a cell's outputs
      if (event.key !== "Enter") return;
      event.preventDefault();
      lines.setRangeText("\n", lines.selectionStart, lines.selectionEnd, "end");
    });
    lines.addEventListener("focus", () => lines.dataset.ours && lines.select());
    const perspectives = field("Its perspectives", lines);
    root.append(field("My own question", typed), perspectives);
    shows.push(({ request, view }) => {
      put(typed, request.typed);
      perspectives.hidden = !request.typed;
      const known = view.question?.text === request.typed ? view.perspectives.map((one) => one.text) : [];
      put(lines, (request.perspectives.length ? request.perspectives : known).join("\n"));
      lines.dataset.ours = request.perspectives.length ? "" : "true";  // typing replaces what nobody typed
    });
  }
  root.append(field("Search with", asked));
  if (choices.first) {
    const places = control("input", { type: "number", min: 1, max: 20 }, (k) => places.reportValidity() && ask({ k: Number(k) }));
    const sides = ["Left system", "Right system"].map((label, side) =>
      systemField(label, choices, (text) => ask({ systems: last.request.systems.map((one, i) => (i === side ? text : one)) })),
    );
    places.required = true;
    root.append(...sides.map((one) => one.box), field("Places, k", places));
    shows.push(({ request, problems }) => {
      put(places, request.k);
      sides.forEach((one, side) => one.show(request.systems[side], problems[side]));
    });
  }

  /** Show what is asked; `differences` are the questions in another order, null where nobody has compared. */
  function show(state) {
    last = state;
    const { request, view, differences } = state;
    order.value = byDifference && differences ? "differences" : "data";
    const questions = byDifference && differences ? differences : choices.questions;
    putOptions(question, request.typed ? [["", "(my own question)"], ...questions] : questions, request.qid);
    const perspectives = (view.perspectives ?? []).map((one, pid) => [pid, `${one.letter}: ${one.text}`]);
    putOptions(asked, [[QUESTION, "the question"], ...perspectives], request.asked);
    shows.forEach((one) => one(state));
  }
  return { show };
}

// ---------------------------------------------------------------- what the lists show

function drawQuestion(view) {
  const parts = [make("h2", {}, foreign(view.question.text)), hint("Searched: the ", foreign(view.searched), ".")];
  if (view.asked) {
    parts.push(make("p", { class: "berds-asked" }, "Searched with this perspective alone: ", foreign(view.asked)));
  }
  return make("header", {}, ...parts);
}

/** What to see in ten seconds: which list hides what. */
function drawHeadline(view) {
  const by = view.recorded ? [] : [", according to a model (", foreign(view.judge), "), which is often wrong"];
  const lead = hint(`In the first ${view.k} places`, ...by, ":");
  const sentences = view.lists.map((list) => {
    const name = make("strong", {}, foreign(list.system));
    if (list.problem) return make("p", {}, name, " has no list; see below.");
    const hidden = list.hidden.flatMap((pid) => [" ", chip(view.perspectives[pid])]);
    if (!view.recorded) {
      return make("p", {}, name, ...(hidden.length ? [": nothing is marked for", ...hidden] : [": something is marked for every perspective"]));
    }
    if (!hidden.length) return make("p", {}, make("span", { class: "berds-whole" }, "✓ "), name, " shows every perspective");
    return make("p", {}, make("span", { class: "berds-hides" }, "✗ "), name, " hides", ...hidden);
  });
  const isKnown = view.judge && view.perspectives.length && view.lists.every((list) => list.said || list.problem);
  return make("div", { class: "berds-headline" }, ...(isKnown ? [lead, ...sentences] : []));
}

function drawLegend(view) {
  if (!view.perspectives.length) return hint("No perspectives, so nothing can be marked. Type some, one per line.");
  const items = view.perspectives.map((one) =>
    make("li", {}, chip(one), " ", foreign(one.text), one.stance ? make("small", {}, ` (${one.stance})`) : ""),
  );
  return make("ul", { class: "berds-legend", "aria-label": "Perspectives" }, ...items);
}

/** Perspectives x ranks: a tick where that place argues that perspective, a dot where it does not. */
function drawStrip(view, list) {
  const ranks = Array.from({ length: view.k }, (_, i) => i + 1);
  const heads = ranks.map((rank) => make("th", { scope: "col" }, String(rank)));
  const corner = make("th", { scope: "col" }, make("span", { class: "berds-unseen" }, "perspective"));
  const rows = view.perspectives.map((one, pid) => {
    const cells = ranks.map((rank) => {
      const shows = list.rows[rank - 1]?.argues.includes(pid);
      return shows ? coloured(make("td", { class: "berds-shows" }, "✓"), one) : make("td", {}, "·");
    });
    return make("tr", {}, make("th", { scope: "row" }, chip(one)), ...cells);
  });
  const caption = make("caption", { class: "berds-unseen" }, "Which perspective is argued at which rank");
  const head = make("thead", {}, make("tr", {}, corner, ...heads));
  return make("table", { class: "berds-strip" }, caption, head, make("tbody", {}, ...rows));
}

function drawFigures(list) {
  const written = ({ name, value }) => {
    if (value === null) return "–";
    return name === "leaning" ? value.toFixed(2) : `${(100 * value).toFixed(1)}%`;
  };
  const pairs = list.figures.map((one) =>
    make("div", { title: one.means }, make("dt", {}, one.name), make("dd", {}, written(one))),
  );
  return make("dl", { class: "berds-figures" }, ...pairs);
}

/** What is wrong in a line, and all of it for who wants to know. */
function drawProblem(problem) {
  const beginning = problem.slice(0, 140).split("\n")[0];
  const sentences = beginning.match(/^.*[.?;](?= )/)?.[0];
  const short = beginning === problem ? problem : `${sentences ?? beginning} …`;
  const line = make("p", { class: "berds-problem", role: "alert" }, foreign(short));
  if (short === problem) return line;
  const summary = make("summary", { "data-key": "problem" }, "Details");
  return make("div", {}, line, make("details", { class: "berds-hint" }, summary, foreign(problem, "p")));
}

function drawHead(view, list, side) {
  const parts = [make("h3", {}, make("small", {}, side), " ", foreign(list.system))];
  if (list.problem) parts.push(drawProblem(list.problem));
  else if (list.searching) parts.push(hint("Searching …"));
  else {
    const pending = view.judged || !view.perspectives.length ? "" : "Judging what was found …";
    parts.push(make("p", { class: "berds-said" }, list.said || pending));
    if (list.note) parts.push(hint(list.note));
    if (view.perspectives.length) parts.push(drawStrip(view, list), drawFigures(list));
  }
  return make("div", { class: "berds-head" }, ...parts);
}

/** Who marked the lists, how far that goes, and what the figures mean. */
function drawExplanation(view) {
  const model = ", a model: it is often wrong, so read a passage before you believe its mark.";
  const doubt = view.recorded ? "; unlabelled passages count as arguing nothing." : model;
  const parts = view.judge ? [hint("Marked by: ", foreign(view.judge), doubt)] : [];
  const figures = view.lists.flatMap((list) => list.figures);
  const meanings = new Map(figures.map((one) => [one.name, one.means]));
  if (meanings.size) {
    const items = [...meanings].map(([name, means]) => make("li", {}, make("strong", {}, name), `: ${means}`));
    const summary = make("summary", { "data-key": "meanings" }, "What do the figures mean?");
    parts.push(make("details", { class: "berds-hint" }, summary, make("ul", {}, ...items)));
  }
  return make("div", {}, ...parts);
}

function drawItem(view, row, place, column, act) {
  const passage = view.passages[row.docno];
  const letters = (pids) => pids.map((pid) => view.perspectives[pid].letter).join(", ");
  const silent = view.judged && view.perspectives.length && !row.argues.length;
  const argues = view.recorded ? "argues" : "marked for";
  const none = row.labelled ? `${argues} none` : "not labelled";
  const said = row.argues.length ? `${argues} ${letters(row.argues)}` : silent ? none : "not judged yet";
  const marks = row.argues.map((pid) => chip(view.perspectives[pid]));
  if (view.perspectives.length) marks.push(make("span", { class: marks.length ? "berds-unseen" : "berds-none" }, said));
  const button = make("button", { type: "button", class: "berds-passage", onclick: () => act.open(row.docno) },
    make("span", { class: "berds-rank" }, String(place + 1)),
    make("span", { class: "berds-title" }, foreign(passage.title || `untitled, ${row.docno}`)),
    make("span", { class: "berds-chips" }, ...marks),
    make("span", { class: "berds-text", dir: "auto" }, ...withMatches(beginning(passage, view.words), view.words)));
  Object.assign(button.dataset, { key: `${column}:${row.docno}`, docno: row.docno, column, place });
  if (row.copies.length) {
    button.append(make("span", { class: "berds-only", title: COPIES }, `⚠ copies ${letters(row.copies)}`));
  }
  if (row.only_here) button.append(make("span", { class: "berds-only" }, "only here"));
  return make("li", { class: silent ? "berds-silent" : "" }, button);
}

function drawList(view, list, column, act) {
  const items = list.rows.map((row, place) => drawItem(view, row, place, column, act));
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
  const listed = view.passages[opened.docno] ?? {};
  const parts = [
    make("h3", { tabindex: "-1", "data-key": "opened" }, foreign((opened.title ?? listed.title) || opened.docno)),
    make("p", { class: "berds-docno" }, foreign(opened.docno), " · matched words are marked"),
    make("p", { class: "berds-full", dir: "auto", tabindex: "0" }, ...withMatches(opened.text ?? listed.text ?? "", view.words)),
  ];
  if (opened.problem) parts.push(make("p", { class: "berds-problem", role: "alert" }, foreign(opened.problem)));
  if (opened.opinions?.length) parts.push(drawOpinions(view, opened));
  else if (opened.asking) parts.push(hint("Asking the judge …"));
  parts.push(make("button", { type: "button", onclick: close }, "Close (Esc)"));
  return make("section", { class: "berds-opened", "aria-label": "Passage" }, ...parts);
}

function drawOpinions(view, opened) {
  const labels = { true: "✓ argues it", false: "does not", null: "no label" };
  const rows = opened.opinions.map((one, pid) => {
    const perspective = view.perspectives[pid];
    const inner = coloured(make("span"), perspective);
    inner.style.width = `${100 * one.p}%`;
    return make("tr", {},
      make("th", { scope: "row" }, chip(perspective), " ", foreign(perspective.text)),
      ...(opened.labelled ? [make("td", {}, labels[one.label])] : []),
      make("td", {}, make("span", { class: "berds-bar" }, inner), ` ${one.p.toFixed(2)}: ${one.says ? "yes" : "no"}, ${one.sure}`),
    );
  });
  const columns = ["perspective", ...(opened.labelled ? ["recorded verdict"] : [])];
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)),
    make("th", { scope: "col" }, "probability by ", foreign(opened.judge), ` (yes from ${opened.yes_from.toFixed(2)})`));
  return make("table", { class: "berds-opinions" }, make("thead", {}, head), make("tbody", {}, ...rows));
}

// ---------------------------------------------------------------- the whole face

/** Arrows go from passage to passage: up and down in a list, left and right between them. Escape closes a passage. */
function moveByKey(root, event) {
  const close = root.querySelector(".berds-opened button");
  const at = event.target.closest?.(".berds-passage");
  const column = Number(at?.dataset.column);
  const place = Number(at?.dataset.place);
  const ways = { ArrowDown: [column, place + 1], ArrowUp: [column, place - 1], ArrowLeft: [0, place], ArrowRight: [1, place] };
  if (event.key === "Escape" && close) close.click();
  else if (at && ways[event.key]) {
    const [toColumn, toPlace] = ways[event.key];
    root.querySelector(`[data-column="${toColumn}"][data-place="${toPlace}"]`)?.focus();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

/**
 * Show views in an element, each in place of the one before; focus stays where it was. `act.open(docno)` is called when
 * a passage is opened, and `act.close()` when it is closed.
 */
function face(root, act) {
  root.classList.add("berds");
  const body = make("div");
  root.append(body);
  let opened = {};
  let lines = () => {};
  // A click is a press and a release on one button: what would be drawn in between is drawn after it.
  let pressed = false;
  let late = null;
  const release = () => setTimeout(() => {
    pressed = false;
    if (late) show(...late);
  });
  root.addEventListener("pointerdown", (event) => { pressed = event.button === 0; });
  for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, release, true);
  const observer = new ResizeObserver(() => lines());
  observer.observe(body);
  root.addEventListener("keydown", (event) => moveByKey(root, event));
  for (const kind of ["focusin", "mouseover"]) {
    root.addEventListener(kind, (event) => {
      const docno = event.target.closest?.("[data-docno]")?.dataset.docno;
      for (const one of root.querySelectorAll("[data-docno]")) one.classList.toggle("berds-lit", one.dataset.docno === docno);
    });
  }

  function close() {
    const { docno } = opened;
    act.close();
    [...root.querySelectorAll(".berds-passage")].find((one) => one.dataset.docno === docno)?.focus();
  }

  function show(view, passage) {
    late = pressed ? [view, passage] : null;
    if (pressed) return;
    if (!view.question) {
      body.replaceChildren(hint("Getting ready …"));
      return;
    }
    const isNew = passage.docno && passage.docno !== opened.docno;
    opened = passage;
    const focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const lists = view.lists.map((list, column) => drawList(view, list, column, act));
    const canvas = document.createElementNS(SVG, "svg");
    canvas.setAttribute("aria-hidden", "true");
    canvas.setAttribute("class", "berds-lines");
    const [left, right] = view.lists.map((list, column) => drawHead(view, list, column ? "right" : "left"));
    const grid = make("div", { class: "berds-lists" }, left, make("span"), right, lists[0], canvas, lists[1]);
    for (const one of grid.querySelectorAll(".berds-passage")) {
      one.setAttribute("aria-expanded", String(one.dataset.docno === opened.docno));
    }
    const parts = [drawQuestion(view), drawHeadline(view), drawLegend(view), grid, drawExplanation(view)];
    if (opened.docno) parts.push(drawOpened(view, opened, close));
    body.replaceChildren(...parts);
    lines = () => drawLines(canvas, ...lists);
    lines();
    if (isNew) {
      const panel = root.querySelector(".berds-opened");
      panel.querySelector("h3").focus({ preventScroll: true });
      panel.scrollIntoView({ block: "center" });
    } else if (focused) {
      [...root.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus({ preventScroll: true });
    }
  }

  const end = () => {
    observer.disconnect();
    for (const kind of ["pointerup", "pointercancel"]) document.removeEventListener(kind, release, true);
  };
  return { show, end };
}

// ---------------------------------------------------------------- lists as a table

/** Offer the lists of a view as CSV, in which no spreadsheet takes a text for a formula. */
function saveTable(view) {
  const cell = (value) => {
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const searchedWith = view.asked || "the question";
  const rows = view.lists.flatMap((list) => list.rows.flatMap((row, place) =>
    view.perspectives.map((_, pid) => [list.system, place + 1, row.docno, pid, row.argues.includes(pid) ? "True" : "False", view.judge, searchedWith])));
  const lines = [["system", "rank", "docno", "pid", "supports", "marked_by", "searched_with"], ...rows];
  const file = new Blob([lines.map((line) => `${line.map(cell).join(",")}\n`).join("")], { type: "text/csv" });
  const words = view.question.text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const link = make("a", { download: `${["lists", ...words].join("-").slice(0, 60)}.csv` });
  link.href = URL.createObjectURL(file);
  link.click();
  URL.revokeObjectURL(link.href);
}

// ---------------------------------------------------------------- in a notebook: the widget

function drawStatus(line, status, cancel) {
  const text = foreign(status.problem || status.text || "");
  const parts = [make("span", { class: status.problem ? "berds-problem" : "" }, text)];
  if (status.busy) {
    parts.push(make("progress", { "aria-label": "Busy" }), make("button", { type: "button", onclick: cancel }, "Cancel"));
  }
  line.replaceChildren(...parts);
}

/** What has the focus in the explorer gets its keys: to JupyterLab an arrow would be a command of the notebook. */
function keepKeys(event) {
  event.target.setAttribute("data-lm-suppress-shortcuts", "true");
}

function render({ model, el }) {
  const menus = make("div", { class: "berds-menus" });
  const line = make("div", { class: "berds-status", role: "status", "aria-live": "polite" });
  const place = make("div");
  const save = make("button", { type: "button", onclick: () => saveTable(model.get("view")) }, "Save as CSV");
  el.classList.add("berds");
  el.append(menus, line, place, save);
  el.addEventListener("focusin", keepKeys);
  const ask = (change) => {
    model.set("request", { ...model.get("request"), ...change });
    model.save_changes();
  };
  const open = (docno) => model.send({ do: "open", docno });
  const close = () => model.send({ do: "close" });
  const drawn = face(place, { open, close });
  const differences = () => {
    const { systems, k } = model.get("request");
    const found = model.get("differences");
    return found.k === k && String(found.systems) === String(systems) ? found.questions : null;
  };
  const controls = form(menus, model.get("choices"), ask, () => differences() || model.send({ do: "order" }));
  const showControls = () => controls.show({
    request: model.get("request"),
    problems: model.get("problems"),
    view: model.get("view"),
    differences: differences(),
  });
  const showLists = () => {
    drawn.show(model.get("view"), model.get("passage"));
    save.disabled = !model.get("view").judged;
  };
  const showStatus = () => drawStatus(line, model.get("status"), () => model.send({ do: "cancel" }));
  const shows = [
    ["change:request change:problems change:view change:differences", showControls],
    ["change:view change:passage", showLists],
    ["change:status", showStatus],
  ];
  for (const [events, show] of shows) {
    model.on(events, show);
    show();
  }
  model.send({ do: "shown" }); // a page that is still loading can miss what the kernel says meanwhile
  return () => {
    for (const [events, show] of shows) model.off(events, show);
    drawn.end();
  };
}

export default { render };
