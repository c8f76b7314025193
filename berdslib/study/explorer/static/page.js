// The page that `berds explore export` writes: menus for what lies in it, and the face. No server, no network.

function overlap(view) {
  const tops = view.lists.map((list) => list.rows.map((row) => row.docno));
  const deepest = Math.min(view.k, Math.max(...tops.map((top) => top.length)));
  if (!deepest) return 1;
  let sum = 0;
  for (let depth = 1; depth <= deepest; depth += 1) {
    const [one, other] = tops.map((top) => new Set(top.slice(0, depth)));
    sum += [...one].filter((docno) => other.has(docno)).length / depth;
  }
  return sum / deepest;
}

/** The change of the measures from the left list to the right one, and how alike the lists are. */
function difference(view) {
  const [left, right] = view.lists.map((list) => Object.fromEntries(list.figures.map((one) => [one.name.split("@")[0], one.value])));
  const change = (name) => (right[name] ?? 0) - (left[name] ?? 0);
  return { mrecall: change("MRecall"), coverage: change("Coverage"), alike: overlap(view) };
}

function inWords(told) {
  const signed = (name, value) => (value ? [`${name} ${value > 0 ? "+" : ""}${value.toFixed(2)}`] : []);
  const parts = [...signed("MRecall", told.mrecall), ...signed("coverage", told.coverage), `${Math.round(100 * told.alike)}% alike`];
  return `  [${parts.join(", ")}]`;
}

function menu(label, options, chosen, change) {
  const id = `menu-${label.toLowerCase().replace(/\W+/g, "-")}`;
  const select = make("select", { id }, ...options.map(([text, value]) => make("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => change(select.value));
  return make("div", { class: "berds-menu" }, make("label", { for: id }, label), select);
}

function openPage() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const told = new Map(data.order.map((qid) => [qid, difference(data.views[qid]["-1"])]));
  const size = (qid) => told.get(qid);
  const byDifference = [...data.order].sort((a, b) => {
    const [one, other] = [size(a), size(b)];
    return Math.abs(other.mrecall) - Math.abs(one.mrecall) || Math.abs(other.coverage) - Math.abs(one.coverage) || one.alike - other.alike;
  });
  const state = { order: "as", qid: data.first, way: "-1", opened: null };
  const page = document.getElementById("page");
  const menus = make("div", { class: "berds berds-menus" });
  const place = make("div", {});
  const table = make("button", { type: "button", onclick: () => saveTable(data, state) }, "Save as CSV");
  const [left, right] = data.views[data.order[0]]["-1"].lists;
  const title = make("h1", {}, foreign(left.system), " beside ", foreign(right.system), " on ", foreign(data.corpus));
  page.replaceChildren(make("div", { class: "berds" }, title), menus, place, make("div", { class: "berds" }, table));
  const drawn = face(place);

  function drawMenus() {
    const order = state.order === "as" ? data.order : byDifference;
    const questions = order.map((qid) => [data.views[qid]["-1"].question.text + (state.order === "as" ? "" : inWords(told.get(qid))), qid]);
    const perspectives = data.views[state.qid]["-1"].perspectives;
    const ways = Object.keys(data.views[state.qid]).sort((a, b) => Number(a) - Number(b));
    const sides = ways.map((way) => [way === "-1" ? "the question" : `${perspectives[Number(way)].letter}: ${perspectives[Number(way)].text}`, way]);
    const focused = document.activeElement?.id;
    menus.replaceChildren(
      menu("Order by", [["in the order of the data", "as"], ["where the lists differ most", "most"]], state.order, (value) => {
        state.order = value;
        if (value === "most") go(byDifference[0]);
        drawMenus();
      }),
      menu("Question", questions, state.qid, go),
      menu("Search with", sides, state.way, (way) => {
        state.way = way;
        state.opened = null;
        show();
      }),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  function go(qid) {
    Object.assign(state, { qid, way: "-1", opened: null });
    drawMenus();
    show();
  }

  function show() {
    const view = data.views[state.qid][state.way];
    const listed = view.lists.flatMap((list) => list.rows.map((row) => row.docno));
    const passages = Object.fromEntries(listed.map((docno) => [docno, data.passages[docno]]));
    drawn.show({ ...view, passages }, state.opened, {
      open: (docno) => {
        state.opened = { docno, ...data.read[state.qid][docno] };
        show();
      },
      close: () => {
        const { docno } = state.opened;
        state.opened = null;
        show();
        drawn.focus(docno);
      },
    });
  }

  drawMenus();
  show();
}

function saveTable(data, state) {
  const view = data.views[state.qid][state.way];
  // A spreadsheet takes a cell that begins so for a formula.
  const cell = (value) => `"${String(value).replace(/^(?=[=+\-@\t\r])/, "'").replaceAll('"', '""')}"`;
  const rows = [["system", "rank", "docno", "pid", "supports"]];
  for (const list of view.lists) {
    list.rows.forEach((row, i) => {
      view.perspectives.forEach((_, pid) => rows.push([list.system, i + 1, row.docno, pid, row.argues.includes(pid)]));
    });
  }
  const file = new Blob([rows.map((row) => row.map(cell).join(",")).join("\n") + "\n"], { type: "text/csv" });
  const link = make("a", { download: "lists.csv" });
  link.href = URL.createObjectURL(file);
  link.click();
  URL.revokeObjectURL(link.href);
}

openPage();
