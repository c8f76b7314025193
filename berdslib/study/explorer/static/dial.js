// A dial with a name that a screen reader can read; ipywidgets' own sliders have none.
function render({ model, el }) {
  const label = document.createElement("label");
  const name = document.createElement("span");
  const range = document.createElement("input");
  const shown = document.createElement("output");
  range.type = "range";
  el.classList.add("berds-dial");
  label.append(name, range, shown);
  el.append(label);
  function show() {
    name.textContent = model.get("description");
    for (const key of ["min", "max", "step"]) range[key] = String(model.get(key));
    range.value = String(model.get("value"));
    range.disabled = model.get("disabled");
    shown.textContent = String(model.get("value"));
  }
  range.addEventListener("input", () => {
    model.set("value", Number(range.value));
    model.save_changes();
  });
  model.on("change", show);
  show();
  return () => model.off("change", show);
}

export default { render };
