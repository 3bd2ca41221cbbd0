// Canvases: sharp on any screen, with the same margins, so that a moment stands at one place in all of them.
const RIGHT = 10;
let LEFT = 128;
let hover = null; // the moment under the pointer

// Register a canvas: `draw(pen, width, height)` is called whenever it must be drawn and can be seen.
function painter(canvas, height, draw) {
  const own = { canvas, height, seen: false, width: 0, draw: () => paint(own, draw) };
  new ResizeObserver(() => { own.width = canvas.clientWidth; sizeUp(own); repaint(); }).observe(canvas);
  new IntersectionObserver(([entry]) => {
    own.seen = entry.isIntersecting;
    if (own.seen) repaint();
  }, { rootMargin: "80px" }).observe(canvas);
  canvas.style.height = `${height}px`;
  painters.push(own);
  return own;
}

function sizeUp(own) {
  LEFT = own.width < 520 ? 84 : 128;
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const [wide, high] = [Math.round(own.width * ratio), Math.round(own.height * ratio)];
  if (own.canvas.width !== wide || own.canvas.height !== high) {
    own.canvas.width = wide;
    own.canvas.height = high;
  }
  own.ratio = ratio;
}

function paint(own, draw) {
  if (!own.width) return;
  const pen = own.canvas.getContext("2d");
  pen.setTransform(own.ratio, 0, 0, own.ratio, 0, 0);
  pen.clearRect(0, 0, own.width, own.height);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.direction = "ltr";
  draw(pen, own.width, own.height);
}

function xOf(t, width) {
  return LEFT + ((t - axis.begin) / (axis.end - axis.begin)) * (width - LEFT - RIGHT);
}

function tOf(x, width) {
  return axis.begin + ((x - LEFT) / (width - LEFT - RIGHT)) * (axis.end - axis.begin);
}

// Round steps of the axis, few enough for their labels.
function ticks(width) {
  const rough = (axis.end - axis.begin) / Math.max(Math.floor((width - LEFT) / 110), 2);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough);
  const digits = Math.max(-Math.floor(Math.log10(step) + 1e-9), 0);
  const found = [];
  for (let i = Math.ceil(axis.begin / step); i * step <= axis.end; i++) found.push([i * step, `${(i * step).toFixed(digits)} s`]);
  return found;
}

// Draw between the margins only.
function within(pen, width, height, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(LEFT - 6, 0, width - LEFT - RIGHT + 12, height); // marks at the very edge are seen whole
  pen.clip();
  draw();
  pen.restore();
}

function upright(pen, x, top, bottom) {
  pen.beginPath();
  pen.moveTo(Math.round(x) + 0.5, top);
  pen.lineTo(Math.round(x) + 0.5, bottom);
  pen.stroke();
}

function grid(pen, width, top, bottom, labelled) {
  pen.lineWidth = 1;
  pen.strokeStyle = color("line");
  pen.fillStyle = color("soft");
  pen.textAlign = "center";
  for (const [t, text] of ticks(width)) {
    const x = xOf(t, width);
    upright(pen, x, top, bottom);
    if (labelled) pen.fillText(text, Math.min(Math.max(x, LEFT + 16), width - 24), top - 8);
  }
}

// The faults as bands over the whole height; instant ones as a line.
function bandsOver(pen, width, top, bottom) {
  for (const band of DATA.bands ?? []) {
    if (band.end < axis.begin || band.begin > axis.end) continue;
    const [from, to] = [xOf(band.begin, width), xOf(band.end, width)];
    pen.fillStyle = color("band");
    pen.fillRect(from, top, Math.max(to - from, 1), bottom - top);
    pen.strokeStyle = color("fail");
    pen.lineWidth = 1;
    upright(pen, from, top, bottom);
  }
}

function cursors(pen, width, top, bottom) {
  if (hover !== null) {
    pen.strokeStyle = color("soft");
    pen.lineWidth = 1;
    upright(pen, xOf(hover, width), top, bottom);
  }
  if (picked) {
    pen.strokeStyle = color("accent");
    pen.lineWidth = 2;
    pen.setLineDash([4, 3]);
    upright(pen, xOf(picked.t, width), top, bottom);
    pen.setLineDash([]);
  }
}

// `text` cut to a width, with an ellipsis.
function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let length = Math.floor((text.length * room) / pen.measureText(text).width);
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length--;
  return `${text.slice(0, Math.max(length, 1))}…`;
}

themed.push(repaint);
