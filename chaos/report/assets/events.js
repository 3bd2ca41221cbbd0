// The list of events: search, filters, pages; a row leads to its mark and to the checks that it is evidence of.
const PAGE = 100;
let found = DATA.events;
let page = 0;
let texts = null; // of each event in lower case, made on the first search

function fillFilters() {
  for (const [id, words] of [["event-kind", DATA.kinds], ["event-source", DATA.sources]]) {
    words.forEach(([word, count], i) => at(id).append(make("option", `${word} (${count})`, { value: i })));
  }
}

function filterEvents() {
  const words = at("event-find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [kind, source] = [at("event-kind").value, at("event-source").value];
  const evidence = at("event-evidence").checked;
  if (words.length && !texts) {
    texts = new Map(DATA.events.map((e) => [e[0], `#${e[0]} ${DATA.sources[e[2]][0]} ${DATA.kinds[e[3]][0]} ${e[4]} ${e[5]}`.toLowerCase()]));
  }
  found = DATA.events.filter((e) =>
    (kind === "" || e[3] === Number(kind)) && (source === "" || e[2] === Number(source)) &&
    (!evidence || DATA.cited[e[0]]) && words.every((word) => texts.get(e[0]).includes(word)));
  page = 0;
  showPage();
  say(`${found.length} of ${counted(DATA.events.length, "event")} found`);
}

function showPage() {
  const body = at("events").tBodies[0];
  const last = Math.max(Math.ceil(found.length / PAGE) - 1, 0);
  page = Math.min(Math.max(page, 0), last);
  body.replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(eventRow));
  at("page-at").textContent = found.length ? `${page * PAGE + 1}–${Math.min((page + 1) * PAGE, found.length)} of ${found.length}` : "none";
  at("page-back").disabled = page === 0;
  at("page-on").disabled = page === last;
}

function eventRow([seq, t, source, kind, text, data]) {
  const row = make("tr", null, { "data-seq": seq });
  if (picked?.seq === seq) row.classList.add("picked");
  const link = make("a", seq, { href: `#e${seq}`, title: "Show in the timeline" });
  link.addEventListener("click", (event) => { event.preventDefault(); event.stopPropagation(); pick(seq, { list: false, scroll: true }); row.classList.add("picked"); });
  const first = make("td", null, { class: "num" });
  first.append(link);
  const told = make("td", text, { class: "text" });
  for (const cited of citing(seq)) {
    const back = make("a", cited.name, { href: `#c${cited.number}`, class: "small" });
    back.addEventListener("click", (event) => { event.preventDefault(); event.stopPropagation(); toCheck(cited.number); });
    told.append(told.querySelector("a") ? ", " : " ← evidence of ", back);
  }
  row.append(first, make("td", t.toFixed(3), { class: "num" }), make("td", DATA.sources[source][0]), make("td", DATA.kinds[kind][0]), told, make("td", data, { class: "data" }));
  row.addEventListener("click", () => { if (!String(getSelection())) { pick(seq, { list: false }); row.classList.add("picked"); } });
  return row;
}

// Turn the list to an event, past the filters if they hide it; it is not scrolled to.
function turnTo(seq) {
  let i = found.findIndex((e) => e[0] === seq);
  if (i < 0) {
    for (const id of ["event-find", "event-kind", "event-source"]) at(id).value = "";
    at("event-evidence").checked = false;
    found = DATA.events;
    i = found.findIndex((e) => e[0] === seq);
  }
  page = Math.floor(i / PAGE);
  showPage();
}

function toRow(seq) {
  turnTo(seq);
  const row = document.querySelector(`#events tr[data-seq="${seq}"]`);
  row.scrollIntoView({ block: "center" });
  row.querySelector("a").focus({ preventScroll: true });
}

function turnPage(by) {
  page += by;
  showPage();
  say(`Events ${at("page-at").textContent}`);
}

let typing = 0;
function soon(act) {
  clearTimeout(typing);
  typing = setTimeout(act, 120);
}
