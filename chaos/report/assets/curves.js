// Curves under the timeline, on its axis: a picture each, drawn only where there is something to see.
const HIGH = 104;
const FLOOR = HIGH - 6;
const CEILING = 10;

// Value to y, and the labels of that scale.
function scaleOf(chart) {
  const values = chart.layers.flatMap((layer) => layer.pieces.flatMap((piece) => piece.filter((_, i) => i % 2)));
  let high = values.reduce((a, b) => Math.max(a, b), Math.max(...chart.bounds, -Infinity));
  let low = values.reduce((a, b) => Math.min(a, b), Math.min(...chart.bounds, Infinity));
  if (chart.log) return logarithmic(Math.max(low, 1e-3), Math.max(high, 1e-3));
  if (chart.unit === "share") [low, high] = [0, high > 0.5 ? 1 : high || 1];
  else if (low >= 0 && (low < high / 2 || low === high)) low = 0;
  if (high === low) high = low + 1;
  const y = (v) => FLOOR - ((v - low) / (high - low)) * (FLOOR - CEILING);
  return { y, labels: [[high, y(high)], [low, y(low)]] };
}

function logarithmic(low, high) {
  const first = Math.floor(Math.log10(low));
  const last = Math.max(Math.ceil(Math.log10(high)), first + 1);
  const y = (v) => FLOOR - ((Math.log10(Math.max(v, 10 ** first)) - first) / (last - first)) * (FLOOR - CEILING);
  const labels = [];
  for (let power = first; power <= last; power++) labels.push([10 ** power, y(10 ** power)]);
  return { y, labels };
}

function valueText(value, chart) {
  if (chart.unit === "s") return seconds(value);
  return chart.unit === "share" ? `${number(value * 100)} %` : number(value);
}

// The first index of a point (t at even places) at or after `t`.
function search(piece, t) {
  let [low, high] = [0, piece.length / 2];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (piece[2 * middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

// One piece of a curve: of a pixel's points the first, lowest, highest and last.
function trace(pen, piece, width, y) {
  const from = Math.max(search(piece, axis.begin) - 1, 0);
  const to = Math.min(search(piece, axis.end) + 1, piece.length / 2);
  const factor = (width - LEFT - RIGHT) / (axis.end - axis.begin);
  if (to - from === 1) {
    const [x, v] = [LEFT + (piece[2 * from] - axis.begin) * factor, y(piece[2 * from + 1])];
    pen.moveTo(x - 1.5, v);
    pen.lineTo(x + 1.5, v);
    return;
  }
  const dense = to - from > 2 * width;
  let [column, low, high, last] = [NaN, 0, 0, 0];
  for (let i = from; i < to; i++) {
    const x = LEFT + (piece[2 * i] - axis.begin) * factor;
    const v = y(piece[2 * i + 1]);
    if (!dense || Math.floor(x) !== column) {
      if (dense && i > from) { pen.lineTo(column, low); pen.lineTo(column, high); pen.lineTo(column, last); }
      if (i === from) pen.moveTo(x, v);
      else pen.lineTo(x, v);
      [column, low, high, last] = [Math.floor(x), v, v, v];
    } else [low, high, last] = [Math.min(low, v), Math.max(high, v), v];
  }
  if (dense) { pen.lineTo(column, low); pen.lineTo(column, high); pen.lineTo(column, last); }
}

function drawChart(pen, width, chart, scale) {
  grid(pen, width, 2, HIGH, false);
  pen.textAlign = "right";
  pen.fillStyle = color("soft");
  const step = Math.ceil(scale.labels.length / 6);
  scale.labels.forEach(([value, y], i) => {
    if (i % step === 0) pen.fillText(valueText(value, chart), LEFT - 6, y);
    pen.strokeStyle = color("line");
    pen.beginPath(); pen.moveTo(LEFT, y); pen.lineTo(width - RIGHT, y); pen.stroke();
  });
  within(pen, width, HIGH, () => {
    bandsOver(pen, width, 2, HIGH);
    pen.strokeStyle = color("unknown");
    pen.setLineDash([6, 3]);
    for (const bound of chart.bounds) { pen.beginPath(); pen.moveTo(LEFT, scale.y(bound)); pen.lineTo(width - RIGHT, scale.y(bound)); pen.stroke(); }
    chart.layers.forEach((layer, i) => {
      pen.strokeStyle = color(`c${i % 8}`);
      pen.lineWidth = 1.5;
      pen.lineJoin = "round";
      pen.setLineDash(DASHES[i % DASHES.length]);
      pen.beginPath();
      for (const piece of layer.pieces) if (piece.length && piece[0] <= axis.end && piece[piece.length - 2] >= axis.begin) trace(pen, piece, width, scale.y);
      pen.stroke();
    });
    pen.setLineDash([]);
    cursors(pen, width, 2, HIGH);
  });
}

// Layers differ in their dashes as well as in their colours.
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4], [2, 6], [6, 2, 2, 2]];

// What each layer says at a moment: the point at or before it, where the curve has one there.
function valuesAt(chart, t) {
  return chart.layers.map((layer) => {
    for (const piece of layer.pieces) {
      if (!piece.length || t < piece[0] || t > piece[piece.length - 2]) continue;
      const i = Math.max(search(piece, t + 1e-9) - 1, 0);
      return `${layer.name ? `${layer.name} ` : ""}${valueText(piece[2 * i + 1], chart)}`;
    }
    return "";
  }).filter(Boolean).join(" · ");
}

function dashSample(i) {
  const sample = make("canvas", null, { width: 52, height: 20, "aria-hidden": "true", style: "width:26px;height:10px" });
  const draw = () => {
    const pen = sample.getContext("2d");
    pen.setTransform(2, 0, 0, 2, 0, 0);
    pen.clearRect(0, 0, 26, 10);
    pen.strokeStyle = color(`c${i % 8}`);
    pen.lineWidth = 2;
    pen.setLineDash(DASHES[i % DASHES.length]);
    pen.beginPath(); pen.moveTo(0, 5); pen.lineTo(26, 5); pen.stroke();
  };
  draw();
  themed.push(draw);
  return sample;
}

function addChart(chart, place) {
  const box = make("div", null, { class: "chart" });
  const head = make("h3", chart.title);
  if (chart.layers.length > 1 || chart.layers[0]?.name) {
    chart.layers.forEach((layer, i) => {
      const name = make("span");
      name.append(dashSample(i), ` ${layer.name}`);
      head.append(name);
    });
  }
  const value = head.appendChild(make("span", "", { class: "value" }));
  const canvas = make("canvas", null, { role: "img", "aria-label": `${chart.title} over time: ${chart.told}` });
  box.append(head, canvas);
  place.append(box);
  const scale = scaleOf(chart);
  const own = painter(canvas, HIGH, (pen, width) => {
    drawChart(pen, width, chart, scale);
    value.textContent = hover === null ? "" : `${hover.toFixed(3)} s: ${valuesAt(chart, hover) || "no data"}`;
  });
  steer(canvas, own, () => null);
}
