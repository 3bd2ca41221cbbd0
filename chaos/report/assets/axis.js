// The range of time that all pictures show; everything that draws follows it.
const FIRST = DATA.from ?? 0;
const LAST = DATA.end;
const NARROWEST = Math.min(1e-3, (LAST - FIRST) / 10);
const axis = { begin: FIRST, end: LAST };
const painters = []; // {canvas, draw, seen}
let queued = false;

// Draw again, once a frame at most, and only what can be seen.
function repaint() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    for (const painter of painters) if (painter.seen) painter.draw();
  });
}

function show(begin, end) {
  const width = Math.min(Math.max(end - begin, NARROWEST), LAST - FIRST);
  const middle = (begin + end) / 2;
  axis.begin = Math.min(Math.max(middle - width / 2, FIRST), LAST - width);
  axis.end = axis.begin + width;
  tellRange();
  repaint();
}

function zoom(factor, around) {
  const t = around ?? picked?.t ?? (axis.begin + axis.end) / 2;
  const place = Math.min(Math.max(t, axis.begin), axis.end);
  const width = Math.min(Math.max((axis.end - axis.begin) / factor, NARROWEST), LAST - FIRST);
  const share = (place - axis.begin) / (axis.end - axis.begin);
  show(place - share * width, place - share * width + width);
}

function pan(share) {
  const by = (axis.end - axis.begin) * share;
  show(axis.begin + by, axis.end + by);
}

function showAll() {
  show(FIRST, LAST);
}

function isWhole() {
  return axis.end - axis.begin >= (LAST - FIRST) * 0.9999;
}

function rangeText() {
  return isWhole()
    ? `the whole run, ${seconds(LAST - FIRST)}`
    : `${axis.begin.toFixed(3)} to ${axis.end.toFixed(3)} s, ${seconds(axis.end - axis.begin)} of ${seconds(LAST - FIRST)}`;
}

function tellRange(aloud = true) {
  const place = at("range");
  if (!place) return;
  place.textContent = rangeText();
  for (const id of ["zoom-out", "pan-left", "pan-right", "zoom-all"]) if (at(id)) at(id).disabled = isWhole();
  clearTimeout(announcing);
  if (aloud) announcing = setTimeout(() => say(`Showing ${rangeText()}`), 400); // not on every turn of a wheel
}
