// Before anything is drawn: whether there is a script, and the theme that was chosen last.
document.documentElement.classList.add("js");
try {
  const kept = localStorage.getItem("chaos-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch { /* no storage: the system's theme */ }
