// Slides one at a time: arrow keys, space and clicks turn them. Without this script all of them stand on one page.

const slides = [...document.querySelectorAll("section")];
const last = slides.length - 1;
const TURNS = { ArrowRight: 1, PageDown: 1, " ": 1, Enter: 1, ArrowLeft: -1, PageUp: -1, Home: -last, End: last };
let at = 0;

/** Shrink what a slide holds until it fits. */
function fit(slide) {
  for (let size = 1; size > 0.5; size -= 0.05) {
    slide.style.setProperty("--fit", size);
    if (slide.scrollHeight <= slide.clientHeight && slide.scrollWidth <= slide.clientWidth) return;
  }
}

function show(place) {
  at = Math.max(0, Math.min(last, place));
  slides.forEach((slide, i) => { slide.hidden = i !== at; });
  history.replaceState(null, "", `#${at + 1}`);
  scrollTo(0, 0);
}

addEventListener("keydown", (event) => {
  const turn = TURNS[event.key];
  if (!turn || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  show(at + turn);
});
addEventListener("click", (event) => {
  if (String(getSelection())) return; // a text was selected
  show(at + (event.clientX < innerWidth / 3 ? -1 : 1));
});
addEventListener("hashchange", () => show(parseInt(location.hash.slice(1), 10) - 1 || 0));

slides.forEach(fit);
show(parseInt(location.hash.slice(1), 10) - 1 || 0);
