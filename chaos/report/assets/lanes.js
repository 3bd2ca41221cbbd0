// Members as lanes: lives in the colours of their epochs, faults as bands, generations as flags, key events as marks.
const ROW = 22;
const TOP = 40;
const EPOCHS = 5; // colours that they share; the sixth is of none
const rowOf = new Map(DATA.lanes.map((lane, i) => [lane.name, i]));

// Shape and colour of a kind of event, and its word in the legend.
const LOOKS = {
  "fault.healed": ["diamond", "pass", "fault healed"], fault: ["diamond", "fail", "fault"], failure: ["up", "fail", "failure noticed"],
  "write.rejected": ["cross", "fail", "write refused"], "epoch.rejected": ["cross", "fail", "write refused"], member: ["cross", "ink", "process started or ended"], recovery: ["round", "pass", "recovery"],
  group: ["round", "pass", "recovery"], session: ["round", "pass", "recovery"], checkpoint: ["square", "ink", "checkpoint"],
  replica: ["down", "unknown", "service changed"], breaker: ["down", "unknown", "service changed"], ladder: ["down", "unknown", "service changed"],
  features: ["down", "unknown", "service changed"], drain: ["down", "unknown", "service changed"],
};
const PLAIN = ["dot", "soft", "other event"];

function lookOf(kind) {
  return LOOKS[kind] ?? LOOKS[kind.split(".")[0]] ?? PLAIN;
}

// A mark whose shape tells its kind as well as its colour does.
function shape(pen, look, x, y, size) {
  pen.beginPath();
  if (look === "diamond") { pen.moveTo(x, y - size - 1); pen.lineTo(x + size + 1, y); pen.lineTo(x, y + size + 1); pen.lineTo(x - size - 1, y); }
  else if (look === "up") { pen.moveTo(x, y - size); pen.lineTo(x + size, y + size); pen.lineTo(x - size, y + size); }
  else if (look === "down") { pen.moveTo(x, y + size); pen.lineTo(x + size, y - size); pen.lineTo(x - size, y - size); }
  else if (look === "square") pen.rect(x - size + 0.5, y - size + 0.5, 2 * size - 1, 2 * size - 1);
  else if (look === "cross") {
    pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size); pen.moveTo(x + size, y - size); pen.lineTo(x - size, y + size);
    pen.lineWidth = 4; pen.strokeStyle = color("card"); pen.stroke();
    pen.lineWidth = 2; pen.strokeStyle = pen.fillStyle; pen.stroke();
    return;
  } else pen.arc(x, y, look === "dot" ? size - 1.5 : size - 0.5, 0, 7);
  pen.closePath();
  pen.lineWidth = 1;
  pen.strokeStyle = color("card");
  pen.fill();
  pen.stroke();
}

function drawSpan(pen, span, width, y) {
  const [begin, end, state, epoch, why] = span;
  if (end < axis.begin || begin > axis.end || state === "stopped") return;
  const [from, to] = [Math.max(xOf(begin, width), LEFT - 2), Math.min(xOf(end, width), width)];
  const wide = Math.max(to - from, 1);
  if (state === "dead" || state === "gone") {
    pen.strokeStyle = color(state === "dead" ? "fail" : "soft");
    pen.lineWidth = 1;
    pen.setLineDash(state === "dead" ? [4, 3] : [1, 3]);
    pen.strokeRect(from, y + 5.5, wide, 9);
    pen.setLineDash([]);
    label(pen, state === "dead" && why ? `dead: ${why}` : state, from, wide, y, "soft");
    return;
  }
  pen.fillStyle = color(epoch ? `e${(epoch - 1) % EPOCHS}` : "e5");
  pen.fillRect(from, y + 4, wide, 12);
  if (state === "frozen") {
    pen.strokeStyle = color("accent");
    pen.lineWidth = 1.5;
    pen.setLineDash([2, 2]);
    pen.strokeRect(from, y + 4, wide, 12);
    pen.setLineDash([]);
  }
  label(pen, state === "frozen" ? "frozen" : epoch === null ? "" : `epoch ${epoch}`, from, wide, y, "on-epoch");
}

function label(pen, text, from, wide, y, ink) {
  if (!text || wide < pen.measureText(text).width + 18) return;
  pen.fillStyle = color(ink);
  pen.textAlign = "left";
  pen.font = "10.5px system-ui, sans-serif";
  pen.fillText(text, from + 14, y + 10.5); // beside the mark that often stands where a span begins
  pen.font = "12px system-ui, sans-serif";
}

function drawLanes(pen, width, height) {
  grid(pen, width, 28, height, true);
  within(pen, width, height, () => {
    bandsOver(pen, width, 28, height);
    drawFlags(pen, width, height);
    DATA.lanes.forEach((lane, i) => { for (const span of lane.spans) drawSpan(pen, span, width, TOP + i * ROW); });
    for (const band of DATA.bands) if (band.end >= axis.begin && band.begin <= axis.end) drawHit(pen, band, width);
    for (const [row, seq] of DATA.marks) {
      const event = eventOf.get(seq);
      if (event.t < axis.begin || event.t > axis.end) continue;
      const [look, ink] = lookOf(event.kind);
      pen.fillStyle = color(ink);
      shape(pen, look, xOf(event.t, width), TOP + row * ROW + 10, 4.5);
    }
    cursors(pen, width, 28, height);
    drawPicked(pen, width);
  });
  bandNames(pen, width);
  pen.textAlign = "left";
  pen.fillStyle = color("ink");
  DATA.lanes.forEach((lane, i) => pen.fillText(fitted(pen, lane.name, LEFT - 12), 2, TOP + i * ROW + 10.5));
}

function drawHit(pen, band, width) {
  const [from, to] = [xOf(band.begin, width), xOf(band.end, width)];
  pen.strokeStyle = color("fail");
  pen.lineWidth = 2;
  for (const row of band.lanes) pen.strokeRect(from, TOP + row * ROW + 2, Math.max(to - from, 2), 16);
}

function drawFlags(pen, width, height) {
  let [line, last] = [-100, -100];
  pen.textAlign = "left";
  pen.font = "10px system-ui, sans-serif";
  for (const [t, generation] of DATA.flags) {
    if (t < axis.begin || t > axis.end) continue;
    const x = xOf(t, width);
    if (x - line < 5) continue; // closer ones would be a grey field
    line = x;
    pen.strokeStyle = pen.fillStyle = color("soft");
    pen.lineWidth = 1;
    pen.setLineDash([1, 3]);
    upright(pen, x, 28, height - 12);
    pen.setLineDash([]);
    if (x > last) {
      const text = `⚑ ${generation}`;
      pen.fillText(text, x + 1, height - 6);
      last = x + pen.measureText(text).width + 8;
    }
  }
  pen.font = "12px system-ui, sans-serif";
}

function bandNames(pen, width) {
  let free = 0;
  pen.textAlign = "left";
  pen.font = "600 12px system-ui, sans-serif";
  for (const band of DATA.bands) {
    if (band.end < axis.begin || band.begin > axis.end) continue;
    const text = fitted(pen, `⚡ ${band.step}`, 220);
    const room = pen.measureText(text).width;
    const x = Math.min(Math.max(xOf(band.begin, width), LEFT), width - RIGHT - room);
    if (x < free) continue;
    pen.fillStyle = color("fail");
    pen.fillText(text, x, 8);
    free = x + room + 10;
  }
  pen.font = "12px system-ui, sans-serif";
}

function drawPicked(pen, width) {
  if (!picked) return;
  const y = TOP + rowFor(picked) * ROW + 10;
  pen.fillStyle = color("pick");
  pen.strokeStyle = color("ink");
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(xOf(picked.t, width), y, 8, 0, 7);
  pen.fill();
  pen.stroke();
  const [look, ink] = lookOf(picked.kind);
  pen.fillStyle = color(ink);
  shape(pen, look, xOf(picked.t, width), y, 4.5);
}

function rowFor(event) {
  const mark = markOf.get(event.seq);
  return mark ? mark[0] : rowOf.get(event.source) ?? 0;
}

// What is under the pointer: a mark, else a fault, else a stretch of a member's life.
function under(x, y, width) {
  const row = Math.floor((y - TOP) / ROW);
  let best = null;
  let near = 9;
  for (const [lane, seq] of DATA.marks) {
    if (lane !== row) continue;
    const away = Math.abs(xOf(eventOf.get(seq).t, width) - x);
    if (away < near) [best, near] = [seq, away];
  }
  if (best !== null) return { seq: best };
  const t = tOf(x, width);
  const lane = DATA.lanes[row];
  const band = DATA.bands.find((b) => b.begin <= t && t <= b.end && (b.lanes.includes(row) || y < TOP));
  const span = lane?.spans.find((s) => s[0] <= t && t <= s[1]);
  return lane || band ? { lane, span, band } : null;
}

function drawLegend(pen, width) {
  const found = new Map();
  for (const [, seq] of DATA.marks) {
    const look = lookOf(eventOf.get(seq).kind);
    found.set(look[2], look);
  }
  let x = 8;
  pen.textAlign = "left";
  for (const [word, [look, ink]] of [...found, ["⚑ generation committed", []], ["fault stands", ["band", "band"]]]) {
    const room = pen.measureText(word).width + 34;
    if (x + room > width) break;
    if (look === "band") {
      pen.fillStyle = color("band");
      pen.fillRect(x - 4, 3, 12, 14);
    } else if (look) {
      pen.fillStyle = color(ink);
      shape(pen, look, x, 10, 4.5);
    }
    pen.fillStyle = color("soft");
    pen.fillText(word, x + (look ? 12 : 0), 10);
    x += room - (look ? 0 : 14);
  }
}
