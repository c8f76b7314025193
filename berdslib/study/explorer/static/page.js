// The page that `berds explore -o FILE.html` writes: menus for what lies in it, and the face. No server, no network.

function openPage() {
  const data = JSON.parse(document.getElementById("data").textContent);
  let request = { qid: data.first, asked: QUESTION };
  let passage = {};
  const menus = make("div", { class: "berds-menus" });
  const place = make("div");
  const view = () => ({ ...data.views[request.qid][request.asked], passages: data.passages });
  const save = make("button", { type: "button", onclick: () => saveTable(view()) }, "Save as CSV");
  const [left, right] = view().lists;
  const title = make("h1", {}, foreign(left.system), " beside ", foreign(right.system), " on ", foreign(data.corpus));
  document.getElementById("page").append(make("div", { class: "berds" }, title, menus, place, save));
  const drawn = face(place, {
    open: (docno) => {
      passage = { docno, ...data.details[request.qid][docno] };
      show();
    },
    close: () => {
      passage = {};
      show();
    },
  });
  const ask = (change) => {
    request = { ...request, ...change };
    passage = {};
    show();
  };
  const compare = () => ask({ qid: data.differences[0][0], asked: QUESTION });
  const controls = form(menus, { questions: data.questions }, ask, compare);

  function show() {
    controls.show({ request, view: view(), differences: data.differences });
    drawn.show(view(), passage);
  }
  show();
}

openPage();
