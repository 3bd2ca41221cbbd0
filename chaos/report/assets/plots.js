// Pointer and wheel on the pictures: hover shows, drag pans, wheel zooms all of them together.
let active = false; // the wheel zooms after a click into a picture; until then it scrolls the page

// `what(x, y, width)` says what is under the pointer, for the tip.
function steer(canvas, own, what) {
  let held = null;
  canvas.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !event.metaKey && !active) return;
    if (sideways && isWhole()) return;
    event.preventDefault();
    if (sideways) pan(event.deltaX / own.width);
    else zoom(Math.exp(-event.deltaY / 400), tOf(event.offsetX, own.width));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, begin: axis.begin, moved: false };
    canvas.setPointerCapture(event.pointerId);
    active = true;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && Math.abs(event.clientX - held.x) > 3) held.moved = true;
    if (held?.moved) {
      canvas.classList.add("held");
      const width = axis.end - axis.begin;
      const begin = held.begin - ((event.clientX - held.x) / (own.width - LEFT - RIGHT)) * width;
      show(begin, begin + width);
    }
    hover = event.offsetX < LEFT ? null : Math.min(Math.max(tOf(event.offsetX, own.width), FIRST), LAST);
    tip(what(event.offsetX, event.offsetY, own.width), event);
    repaint();
  });
  canvas.addEventListener("pointerup", (event) => {
    const found = held && !held.moved ? what(event.offsetX, event.offsetY, own.width) : null;
    held = null;
    canvas.classList.remove("held");
    if (found?.seq !== undefined) pick(found.seq);
  });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointerleave", () => { hover = null; tip(null); repaint(); });
  canvas.addEventListener("dblclick", (event) => zoom(3, tOf(event.offsetX, own.width)));
}

// What is under the pointer or picked by a key, beside it.
function tip(found, place) {
  const box = at("tip");
  if (!box) return;
  box.hidden = !found;
  if (!found) return;
  const lines = tipLines(found);
  box.replaceChildren(make("b", lines[0]), ...lines.slice(1).map((line) => make("div", line)));
  const around = at("plots").getBoundingClientRect();
  const [x, y] = [place.clientX - around.left, place.clientY - around.top];
  const wide = box.offsetWidth;
  box.style.left = `${Math.max(Math.min(x + 14, around.width - wide), 0)}px`;
  box.style.top = `${y + 18}px`;
}

function tipLines(found) {
  if (found.seq !== undefined) {
    const event = eventOf.get(found.seq);
    const times = markOf.get(found.seq)?.[2] ?? 1;
    const cited = citing(found.seq).map((c) => c.name);
    return [event.text, `#${event.seq} · ${event.t.toFixed(3)} s · ${event.source} · ${event.kind}`,
      ...(times > 1 ? [`and ${times - 1} more of the kind close by: zoom in, or search the list`] : []),
      ...(cited.length ? [`evidence of ${cited.slice(0, 3).join(", ")}`] : [])];
  }
  const lines = [];
  if (found.lane) lines.push(`${found.lane.name}${found.lane.about ? ` (${found.lane.about})` : ""}`);
  if (found.span) {
    const [begin, end, state, epoch, why] = found.span;
    lines.push(`${why && state === "dead" ? why : state}${epoch === null ? "" : `, epoch ${epoch}`}: ${begin.toFixed(3)} to ${end.toFixed(3)} s`);
  }
  if (found.band) {
    const { band } = found;
    const length = band.end > band.begin ? `${seconds(band.end - band.begin)}${band.healed ? "" : ", never healed"}` : "instant";
    lines.push(`fault ${band.step}${band.kind === band.step ? "" : ` (${band.kind})`} from ${band.begin.toFixed(3)} s: ${length}`);
  }
  return lines;
}

// The whole run small, with the window that is shown: click or drag moves it.
function drawMap(pen, width, height) {
  const x = (t) => LEFT + ((t - FIRST) / (LAST - FIRST)) * (width - LEFT - RIGHT);
  pen.fillStyle = color("track");
  pen.fillRect(LEFT, 6, width - LEFT - RIGHT, height - 10);
  pen.fillStyle = color("soft");
  pen.textAlign = "left";
  pen.fillText("whole run", 2, height / 2 + 1);
  for (const [, seq] of DATA.marks) pen.fillRect(x(eventOf.get(seq).t), height - 9, 1, 4);
  pen.fillStyle = color("fail");
  for (const band of DATA.bands) pen.fillRect(x(band.begin), 7, Math.max(x(band.end) - x(band.begin), 2), 7);
  const [from, to] = [x(axis.begin), x(axis.end)];
  pen.fillStyle = color("band");
  pen.globalAlpha = 0.9;
  pen.strokeStyle = color("accent");
  pen.lineWidth = 2;
  pen.strokeRect(from, 4, Math.max(to - from, 3), height - 6);
  pen.globalAlpha = 1;
}

function steerMap(canvas, own) {
  const move = (event) => {
    const t = FIRST + ((event.offsetX - LEFT) / (own.width - LEFT - RIGHT)) * (LAST - FIRST);
    const width = axis.end - axis.begin;
    show(t - width / 2, t + width / 2);
  };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); move(event); });
  canvas.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
}

function startToolbar() {
  onClick("zoom-in", () => zoom(1.6));
  onClick("zoom-out", () => zoom(1 / 1.6));
  onClick("pan-left", () => pan(-0.3));
  onClick("pan-right", () => pan(0.3));
  onClick("zoom-all", showAll);
  tellRange(false);
}
