// The checks: filters by outcome and text; their evidence leads to the timeline and the list.
let outcome = "";

function filterChecks() {
  const words = at("check-find").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  const rows = at("checks").tBodies[0].rows;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = (outcome !== "" && row.dataset.outcome !== outcome) || !words.every((word) => text.includes(word));
    count += !row.hidden;
  }
  at("check-count").textContent = count === rows.length ? "" : `${count} of ${rows.length}`;
  say(`${count} of ${counted(rows.length, "check")} shown`);
}

function setOutcome(word) {
  outcome = word;
  for (const button of document.querySelectorAll("button.outcome")) button.setAttribute("aria-pressed", String(button.dataset.outcome === word));
}

// To a check, past the filters if they hide it.
function toCheck(number) {
  const row = at(`c${number}`);
  if (!row) return;
  if (row.hidden) {
    setOutcome("");
    at("check-find").value = "";
    filterChecks();
  }
  for (const other of document.querySelectorAll("tr.picked")) other.classList.remove("picked");
  row.classList.add("picked");
  row.scrollIntoView({ block: "center" });
  row.tabIndex = -1;
  row.focus({ preventScroll: true });
}

function startChecks() {
  if (!at("checks")) return;
  for (const button of document.querySelectorAll("button.outcome")) {
    button.addEventListener("click", () => { setOutcome(button.dataset.outcome); filterChecks(); });
  }
  at("check-find").addEventListener("input", () => soon(filterChecks));
  for (const cell of document.querySelectorAll("#checks .proof")) {
    const late = cell.querySelectorAll(".late");
    if (!late.length) continue;
    const button = make("button", `show ${late.length} more`, { type: "button", class: "more" });
    button.addEventListener("click", () => { cell.classList.add("open"); button.remove(); });
    late[late.length - 1].after(button, " ");
  }
}

function startLinks() {
  for (const link of document.querySelectorAll("a.to-event")) {
    link.addEventListener("click", (event) => { if (pick(Number(link.hash.slice(2)), { scroll: true })) event.preventDefault(); });
  }
  for (const link of document.querySelectorAll("a.to-check")) {
    link.addEventListener("click", (event) => { event.preventDefault(); toCheck(Number(link.hash.slice(2))); });
  }
}
