// Keys for everything that a pointer does; none while somebody types.
function zoomToFault() {
  const on = document.querySelector(".episode.on");
  const band = DATA.bands[0];
  const [begin, end] = DATA.recoveries[on ? Number(on.dataset.episode) : 0] ?? (band ? [band.begin, band.end] : [FIRST, LAST]);
  const margin = Math.max((end - begin) * 0.35, (LAST - FIRST) / 60);
  show(begin - margin, end + margin);
}

const KEYS = {
  "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: showAll, f: zoomToFault,
  n: () => stepTo(1), p: () => stepTo(-1), t: nextTheme, Escape: drop,
  "?": () => at("keys").showModal(),
  "/": () => { at("event-find").scrollIntoView({ block: "center" }); at("event-find").focus({ preventScroll: true }); },
};
const PLOT_KEYS = {
  ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowUp: () => zoom(1.6), ArrowDown: () => zoom(1 / 1.6), Home: () => stepTo(-1e9), End: () => stepTo(1e9),
  Enter: () => { if (picked) toRow(picked.seq); },
};

function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || at("keys").open) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const plots = event.target.closest("#lanes") ? PLOT_KEYS[event.key] : undefined;
    const act = plots ?? KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest("#plots")) active = false; });
  onClick("help", () => at("keys").showModal());
  onClick("keys-close", () => at("keys").close());
}
