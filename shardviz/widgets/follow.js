// Follows one element: lights it in every picture of the explorer that says where its elements are, without a word to the kernel.

function render({ model, el }) {
  el.classList.add("sv-following-part");
  const root = unique();
  const set = setter(model);
  const button = sender(model);
  const attributes = { type: "text", class: "sv-mono", placeholder: "none", inputmode: "text" };
  const field = new Field(`${root}-follow`, "Follow element", attributes, (value) => set("follow", value));
  const back = button("‹", () => ({ do: "beside", by: -1 }), { class: "sv-icon", "aria-label": "Element before" });
  const next = button("›", () => ({ do: "beside", by: 1 }), { class: "sv-icon", "aria-label": "Element after" });
  const clear = make("button", { type: "button", class: "sv-quiet", onclick: () => set("follow", "") }, "Clear");
  const sentence = make("p", { class: "sv-sentence", "aria-live": "polite" });
  field.input.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    model.send({ do: "beside", by });
  });
  const line = make("div", { class: "sv-follow" }, field.label, field.input, back, next, clear);
  el.append(keepKeys(make("div", { class: "sv-follow-area" }, line, field.message, sentence)));

  const home = () => el.closest(".shardviz-explorer");
  // A cell shows one interval of each dimension that is drawn, or one of flat indices.
  const point = (indices) => indices.flatMap((i) => [i, i + 1]);
  const lightAll = () => {
    const shape = model.get("shape");
    const index = numbersIn(model.get("lit"));
    const following = index.length > 0 && index.length === shape.length;
    const flat = point([index.reduce((sum, i, dim) => sum * shape[dim] + i, 0)]);
    for (const svg of home()?.querySelectorAll("svg[data-dims]") ?? []) {
      const dims = numbersIn(svg.dataset.dims);
      const span = point(dims.map((dim) => index[dim]));
      const shows = (one) => meets(one, one.length === 2 && dims.length > 1 ? flat : span);
      light(svg, following && dims.length > 0 ? shows : null);
    }
  };
  const pick = (event) => {
    const cell = home()?.contains(event.target) && event.target.closest("svg[data-dims] [data-span]");
    if (!cell) return;
    const shape = model.get("shape");
    const span = spanOf(cell);
    const dims = numbersIn(cell.closest("svg").dataset.dims);
    const index = shape.map(() => 0);
    if (span.length === 2 && dims.length > 1) {
      let rest = span[0];
      for (let dim = shape.length - 1; dim >= 0; dim -= 1) {
        index[dim] = rest % shape[dim];
        rest = Math.floor(rest / shape[dim]);
      }
    } else dims.forEach((dim, place) => (index[dim] = span[2 * place]));
    if (!index.length) return;
    const text = cell.classList.contains("here") ? "" : index.join(", ");
    model.set("lit", text);
    lightAll();
    set("follow", text);
  };
  document.addEventListener("click", pick);
  const seen = new MutationObserver(lightAll);
  let waiting = 0;
  const attach = () => {
    if (!home()) {
      waiting = requestAnimationFrame(attach);
      return;
    }
    seen.observe(home(), { childList: true, subtree: true });
    lightAll();
  };
  attach();

  const ends = [
    watch(model, ["follow", "error", "sentence"], () => {
      field.show(model.get("follow"), model.get("error"));
      if (document.activeElement === field.input && !field.pending()) field.input.value = model.get("follow");
      hide(clear, !model.get("follow"), field.input);
      if (sentence.textContent !== model.get("sentence")) sentence.textContent = model.get("sentence");
      sentence.hidden = !model.get("sentence");
    }),
    watch(model, ["lit", "shape"], lightAll),
    () => {
      document.removeEventListener("click", pick);
      seen.disconnect();
      cancelAnimationFrame(waiting);
    },
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
