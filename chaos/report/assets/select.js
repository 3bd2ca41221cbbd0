// The event that is picked: by a click on a mark, a link of evidence, a row of the list or a key. All places show it.
let picked = null;
const eventOf = new Map(DATA.events.map(([seq, t, source, kind, text, data]) => [
  seq, { seq, t, source: DATA.sources[source][0], kind: DATA.kinds[kind][0], text, data },
]));
const markOf = new Map(DATA.marks.map((mark) => [mark[1], mark]));
// Where the keys stop: marks, and the evidence of what is not green; that of all the rest would be a long way.
const telling = Object.keys(DATA.cited).map(Number).filter((seq) => citing(seq).some((check) => check.outcome !== "pass"));
const stops = [...new Set([...DATA.marks.map((mark) => mark[1]), ...telling])]
  .filter((seq) => eventOf.has(seq))
  .sort((a, b) => eventOf.get(a).t - eventOf.get(b).t || a - b);

// The checks that this event is evidence of.
function citing(seq) {
  return (DATA.cited[seq] ?? []).map((n) => {
    const row = at(`c${n}`);
    return { number: n, name: row?.querySelector("th")?.firstChild?.textContent.trim() ?? "", outcome: row?.dataset.outcome };
  });
}

// Pick an event; `list`: turn the list to it as well, `scroll`: bring the timeline into view.
function pick(seq, { list = true, scroll = false } = {}) {
  const event = eventOf.get(seq);
  if (!event) {
    say(`Event ${seq} is not in this page; it is in journal.jsonl`);
    return false;
  }
  picked = event;
  if (event.t < axis.begin || event.t > axis.end) {
    const half = (axis.end - axis.begin) / 2;
    show(event.t - half, event.t + half);
  }
  for (const row of document.querySelectorAll("tr.picked")) row.classList.remove("picked");
  for (const cited of DATA.cited[seq] ?? []) at(`c${cited}`)?.classList.add("picked");
  showPicked(event);
  if (list) turnTo(seq);
  if (scroll) at("plots").scrollIntoView({ block: "start", behavior: "auto" });
  history.replaceState(null, "", `#e${seq}`);
  repaint();
  return true;
}

function showPicked(event) {
  const box = at("picked");
  const cited = make("p");
  const checks = citing(event.seq);
  if (checks.length) {
    cited.append("Evidence of ");
    checks.forEach((c, i) => {
      const link = make("a", `${c.name} (${c.outcome})`, { href: `#c${c.number}` });
      link.addEventListener("click", (click) => { click.preventDefault(); toCheck(c.number); });
      cited.append(i ? ", " : "", link);
    });
  }
  const buttons = make("div", null, { class: "filters" });
  const act = (text, does) => { const b = make("button", text, { type: "button" }); b.addEventListener("click", does); buttons.append(b); };
  act("Show in the list", () => toRow(event.seq));
  act("Zoom to it", () => { const w = (LAST - FIRST) / 40; show(event.t - w, event.t + w); });
  act("Let go", drop);
  const head = make("p");
  head.append(make("b", event.text), make("span", ` #${event.seq} · ${event.t.toFixed(3)} s · ${event.source} · ${event.kind}`, { class: "soft" }));
  box.replaceChildren(head, ...(checks.length ? [cited] : []), ...(event.data ? [make("div", event.data, { class: "data" })] : []), buttons);
  box.hidden = false;
}

function drop() {
  picked = null;
  at("picked").hidden = true;
  tip(null);
  for (const row of document.querySelectorAll("tr.picked")) row.classList.remove("picked");
  repaint();
}

// To the next or previous of the marks and the evidence, by time; the tip shows it where it stands.
function stepTo(by) {
  if (!stops.length) return;
  let i = picked ? stops.indexOf(picked.seq) : -1;
  if (picked && i < 0) i = stops.findIndex((seq) => eventOf.get(seq).t > picked.t) - (by > 0 ? 1 : 0);
  else if (!picked) i = by > 0 ? stops.findIndex((seq) => eventOf.get(seq).t >= axis.begin) - 1 : stops.findLastIndex((seq) => eventOf.get(seq).t <= axis.end) + 1;
  const seq = stops[Math.min(Math.max(i + by, 0), stops.length - 1)];
  pick(seq);
  const canvas = at("lanes");
  const box = canvas.getBoundingClientRect();
  tip({ seq }, { clientX: box.left + xOf(picked.t, canvas.clientWidth), clientY: box.top + TOP + rowFor(picked) * ROW + 8 });
}
