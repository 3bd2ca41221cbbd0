// Every text in sight with too little contrast to its ground, and the colours that are drawn with on canvases.
() => {
  const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (css) => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = css; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const line = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * line(r / 255) + 0.7152 * line(g / 255) + 0.0722 * line(b / 255);
  const ratio = (a, b) => {
    const [high, low] = [light(rgb(a)), light(rgb(b))].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) if (rgb(getComputedStyle(e).backgroundColor)[3] === 255) return getComputedStyle(e).backgroundColor;
    return "#fff";
  };
  const token = (name) => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(--${name})`;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const faint = [];
  const ask = (what, a, b) => { if (ratio(a, b) < 4.5) faint.push([what, ratio(a, b)]); };
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest("svg, .unseen, .open") || e.disabled) continue;
    ask(`${e.tagName}.${e.className} ${e.textContent.slice(0, 30)}`, getComputedStyle(e).color, ground(e));
  }
  const drawn = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "fail", "pass", "unknown", "soft", "ink", "accent"];
  for (const name of drawn) ask(name, token(name), token("card"));
  for (let i = 0; i < 6; i++) ask(`epoch ${i}`, token("on-epoch"), token(`e${i}`));
  return faint;
}
