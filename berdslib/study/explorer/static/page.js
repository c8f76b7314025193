// The page that `berds explore -o FILE.html` writes: menus for what lies in it, and the face. No server, no network.

function menu(label, options, chosen, change) {
  const id = `menu-${label.toLowerCase().replace(/\W+/g, "-")}`;
  const select = make("select", { id }, ...options.map(([text, value]) => make("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => change(select.value));
  return make("div", { class: "berds-menu" }, make("label", { for: id }, label), select);
}

function openPage() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const differences = new Map(data.most);
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
    const order = state.order === "as" ? data.order : [...differences.keys()];
    const questions = order.map((qid) => [data.views[qid]["-1"].question.text + (state.order === "as" ? "" : differences.get(qid)), qid]);
    const perspectives = data.views[state.qid]["-1"].perspectives;
    const ways = Object.keys(data.views[state.qid]).sort((a, b) => Number(a) - Number(b));
    const sides = ways.map((way) => [way === "-1" ? "the question" : `${perspectives[Number(way)].letter}: ${perspectives[Number(way)].text}`, way]);
    const focused = document.activeElement?.id;
    menus.replaceChildren(
      menu("Order by", [["in the order of the data", "as"], ["where the lists differ most", "most"]], state.order, (value) => {
        state.order = value;
        if (value === "most") go(data.most[0][0]);
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
  const file = new Blob([data.tables[state.qid][state.way]], { type: "text/csv" });
  const link = make("a", { download: "lists.csv" });
  link.href = URL.createObjectURL(file);
  link.click();
  URL.revokeObjectURL(link.href);
}

openPage();
