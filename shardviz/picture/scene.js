// What was rendered is shown, lit and moved here; nothing is drawn. Pages and widgets share it.

const TRAVEL_MS = 500;

const numbersIn = (text) => (text ?? "").split(/[ ,]+/).filter(Boolean).map(Number);
const spanOf = (cell) => numbersIn(cell.dataset.span);
const cellsOf = (svg) => [...(svg?.querySelectorAll(".cell") ?? [])];
const ranksOf = (cells) => [...new Set(cells.filter((cell) => cell.dataset.rank).map((cell) => Number(cell.dataset.rank)))];

// Elements by name: "3", "3-5", "(0, 2)".
function spanName(span) {
  const parts = [];
  for (let i = 0; i < span.length; i += 2) parts.push(span[i + 1] - span[i] === 1 ? `${span[i]}` : `${span[i]}-${span[i + 1] - 1}`);
  return parts.length > 1 ? `(${parts.join(", ")})` : (parts[0] ?? "");
}

// Whether two boxes of elements have one in common.
const meets = (one, other) =>
  one.length === other.length && one.length > 0 && one.every((_, i) => i % 2 || (one[i] < other[i + 1] && other[i] < one[i + 1]));

// Light the cells whose span `shows` what is followed (null: nothing is), and the ranks of the mesh that have it; the mesh stays as it
// is where `mesh` is false.
function light(svg, shows, mesh = true) {
  svg.classList.toggle("following", shows !== null);
  const told = (cell) => cell.dataset.span || cell.classList.contains("pad");
  const all = cellsOf(svg).filter((cell) => told(cell) || (mesh && cell.dataset.rank));
  const lit = new Set(shows ? all.filter((cell) => shows(spanOf(cell))) : []);
  const homes = new Set([...lit].map((cell) => cell.dataset.rank));
  for (const cell of all) {
    const here = shows !== null && (told(cell) ? lit.has(cell) : homes.has(cell.dataset.rank));
    cell.classList.toggle("here", here);
    cell.classList.toggle("other", shows !== null && !here);
  }
}

// What a cell is, for the pointer that rests on it.
function tell(cell) {
  if (cell.querySelector("title")) return;
  const span = spanOf(cell);
  const what = cell.classList.contains("pad") ? "padding" : span.length ? `element ${spanName(span)}` : "";
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = [what, cell.dataset.rank ? `on rank ${cell.dataset.rank}` : ""].filter(Boolean).join(" ");
  cell.prepend(title);
}

// Elements travel from where they were: on their own rank if they were there, else from the nearest one that had them.
function travel(before, after) {
  if (!before || !after || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const at = (cell) => {
    const box = cell.querySelector("rect") ?? cell; // one without words is its own rectangle
    const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
    return [x + width / 2, y + height / 2];
  };
  const known = new Map();
  for (const cell of cellsOf(before)) {
    const key = cell.dataset.span;
    if (key) known.set(key, [...(known.get(key) ?? []), { rank: cell.dataset.rank, at: at(cell) }]);
  }
  for (const cell of cellsOf(after)) {
    const found = known.get(cell.dataset.span);
    if (!cell.animate) return;
    if (!found) {
      if (cell.classList.contains("pad")) cell.animate([{ opacity: 0 }, { opacity: 1 }], { duration: TRAVEL_MS });
      continue;
    }
    const here = at(cell);
    const far = (other) => (other.rank === cell.dataset.rank ? 0 : 1e6) + Math.hypot(other.at[0] - here[0], other.at[1] - here[1]);
    const from = found.reduce((best, other) => (far(other) < far(best) ? other : best));
    const [dx, dy] = [from.at[0] - here[0], from.at[1] - here[1]];
    const motion = { duration: TRAVEL_MS, easing: "cubic-bezier(.4, 0, .2, 1)" };
    if (dx || dy) cell.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], motion);
  }
}
