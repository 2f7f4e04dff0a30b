// Guess which elements a rank holds, then see.

const MARKS = { right: "✓", missed: "○", extra: "×" };

function render({ model, el }) {
  const root = unique();
  const set = setter(model);
  const button = sender(model);
  const rank = new Field(`${root}-rank`, "Rank", {}, (value) => set("rank", Number(value)), make("select"));
  const words = make("p", { class: "sv-lead" });
  const cells = make("div", { class: "sv-cells", role: "group", "aria-label": "Elements of the tensor" });
  const reveal = button("Reveal", () => ({ do: "reveal", chosen: model.get("chosen") }), { class: "sv-primary" });
  const again = button("Guess again", () => ({ do: "again" }), { class: "sv-secondary" });
  const sentence = make("p", { class: "sv-sentence", role: "status" });
  const line = make("div", { class: "sv-guess-line" }, rank.label, rank.input, reveal, again);

  const toggle = (flat) => {
    const chosen = new Set(model.get("chosen"));
    if (!chosen.delete(flat)) chosen.add(flat);
    set("chosen", [...chosen].sort((a, b) => a - b));
  };
  const index = (flat, shape) => {
    const found = [];
    for (const size of [...shape].reverse()) {
      found.unshift(flat % size);
      flat = Math.floor(flat / size);
    }
    return found.length === 1 ? `${found[0]}` : `(${found.join(", ")})`;
  };
  const build = () => {
    const shape = model.get("shape");
    const count = model.get("elements");
    cells.style.gridTemplateColumns = `repeat(${shape.length > 1 ? shape.at(-1) : Math.min(count, 16)}, ${shape.length > 1 ? 40 + 16 * shape.length : 44}px)`;
    cells.replaceChildren(
      ...Array.from({ length: count }, (_, flat) =>
        make("button", { type: "button", "data-name": index(flat, shape), onclick: () => toggle(flat) })),
    );
    show();
  };
  const show = () => {
    const outcome = model.get("outcome");
    const revealed = model.get("sentence") !== "";
    const chosen = new Set(model.get("chosen"));
    fill(rank.input, [["", model.get("ranks").map((number) => [String(number), `rank ${number}`])]], String(model.get("rank")));
    words.textContent = model.get("words");
    [...cells.children].forEach((cell, flat) => {
      const kind = Object.keys(MARKS).find((name) => (outcome[name] ?? []).includes(flat));
      cell.textContent = `${kind ? `${MARKS[kind]} ` : ""}${cell.dataset.name}`;
      cell.className = kind ? `sv-${kind}` : "";
      cell.disabled = revealed;
      cell.setAttribute("aria-pressed", chosen.has(flat) ? "true" : "false");
      cell.setAttribute("aria-label", `element ${cell.dataset.name}${kind ? `, ${kind}` : ""}`);
    });
    sentence.textContent = model.get("sentence");
    const [here, gone] = revealed ? [again, reveal] : [reveal, again];
    here.hidden = false;
    hide(gone, true, here);
    line.hidden = model.get("elements") === 0;
  };
  const ends = [
    disclosure(model, el, "Guess first", words, line, cells, sentence),
    watch(model, ["shape", "elements"], build),
    watch(model, ["chosen", "outcome", "sentence", "words", "rank", "ranks"], show),
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
