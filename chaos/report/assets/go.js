// Put the page together.
function startPlots() {
  const map = painter(at("map"), 26, drawMap);
  steerMap(at("map"), map);
  const canvas = at("lanes");
  const own = painter(canvas, TOP + DATA.lanes.length * ROW + 18, drawLanes);
  steer(canvas, own, under);
  canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible") && !picked) stepTo(1); });
  canvas.setAttribute("aria-label", `Members over time: ${counted(DATA.lanes.length, "lane")}, ${counted(DATA.bands.length, "fault")}, ${counted(DATA.marks.length, "marked event")}; N and P go from event to event`);
  painter(at("legend"), 20, drawLegend);
  for (const chart of DATA.charts) addChart(chart, at("curves"));
  startToolbar();
  onClick("zoom-fault", zoomToFault);
  onClick("prev", () => stepTo(-1));
  onClick("next-event", () => stepTo(1));
}

function startEpisodes() {
  at("episode")?.addEventListener("change", (event) => {
    for (const box of document.querySelectorAll(".episode")) box.classList.toggle("on", box.dataset.episode === event.target.value);
    say(`Recovery: ${event.target.selectedOptions[0].textContent}`);
  });
}

function startEvents() {
  fillFilters();
  at("event-find").addEventListener("input", () => soon(filterEvents));
  for (const id of ["event-kind", "event-source", "event-evidence"]) at(id).addEventListener("change", filterEvents);
  onClick("page-back", () => turnPage(-1));
  onClick("page-on", () => turnPage(1));
  showPage();
}

// A link into the page from elsewhere: `#e256` is an event, `#c3` a check.
function follow() {
  const [, letter, digits] = /^#([ec])(\d+)$/.exec(location.hash) ?? [];
  if (letter === "e") pick(Number(digits), { scroll: true });
  if (letter === "c") toCheck(Number(digits));
}

startEvents();
startPlots();
startEpisodes();
startChecks();
startLinks();
startKeys();
follow();
addEventListener("hashchange", follow);
