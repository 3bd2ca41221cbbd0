// Tables that are filtered by text and by state.
for (const field of document.querySelectorAll("[data-filters]")) {
  const name = field.dataset.filters;
  const choice = document.querySelector(`[data-picks="${name}"]`);
  const count = document.querySelector(`[data-counts="${name}"]`);
  const rows = [...(at(name)?.tBodies[0].rows ?? [])];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  let waiting = 0;
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    rows.forEach((row, i) => {
      row.hidden = (choice.value !== "" && row.dataset.state !== choice.value) || !words.every((word) => texts[i].includes(word));
      left += !row.hidden;
    });
    count.textContent = left === rows.length ? "" : `${left} of ${rows.length}`;
    say(`${left} of ${rows.length} shown`);
  };
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  choice.addEventListener("change", filter);
}
