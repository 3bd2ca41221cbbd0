// Light, dark, or as the system has it; canvases take their colours from the style sheet.
const THEMES = ["system", "light", "dark"];
const themed = []; // called after a change
const probe = document.body.appendChild(make("i", "", { class: "unseen", "aria-hidden": "true" }));
let palette = {};

// The colour of a token of the style sheet, as it is now.
function color(name) {
  if (!(name in palette)) {
    probe.style.color = `var(--${name})`;
    palette[name] = getComputedStyle(probe).color;
  }
  return palette[name];
}

function recolor() {
  palette = {};
  for (const act of themed) act();
}

function setTheme(name) {
  const root = document.documentElement;
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  try { localStorage.setItem("chaos-theme", name); } catch { /* it holds for this page only */ }
  at("theme-name").textContent = name;
  recolor();
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  setTheme(next);
  say(`Theme: ${next}`);
}

at("theme-name").textContent = document.documentElement.dataset.theme ?? "system";
onClick("theme", nextTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
