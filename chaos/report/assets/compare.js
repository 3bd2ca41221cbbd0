// Curves of two runs on one axis; there is no event to pick.
let picked = null;

for (const chart of DATA.charts) addChart(chart, at("curves"));
startToolbar();
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select")) return;
  const act = { "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: showAll, t: nextTheme, ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2) }[event.key];
  if (act && (!event.key.startsWith("Arrow") || !isWhole())) { event.preventDefault(); act(); }
});
