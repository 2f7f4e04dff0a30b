// One question at many sizes: a strip chart, and a slider that asks about one of them.

function render({ model, el }) {
  const root = unique();
  const set = setter(model);
  const axis = new Field(`${root}-axis`, "Vary", {}, (value) => set("axis", value), make("select"));
  const number = (name, label) =>
    new Field(`${root}-${name}`, label, { type: "text", inputmode: "numeric", class: "sv-mono" }, (value) => set(name, value));
  const first = number("first", "from");
  const last = number("last", "to");
  const message = make("p", { class: "sv-message", "aria-live": "polite" });
  const stage = make("div", { class: "sv-stage-small" });
  const slider = make("input", { type: "range", step: "1", "aria-label": "Size" });
  const track = make("div", { class: "sv-track" }, slider);
  const sentence = make("p", { class: "sv-sentence", "aria-live": "polite" });

  // While the kernel draws one size, only the last of those passed meanwhile is kept.
  let asked = null;
  slider.addEventListener("input", () => {
    if (asked === null) {
      asked = slider.value;
      model.send({ do: "size", size: Number(asked) });
    }
  });
  const show = () => {
    fill(axis.input, [["", model.get("axes").map((name) => [name, name])]], model.get("axis"));
    first.show(model.get("first"), "");
    last.show(model.get("last"), "");
    message.textContent = model.get("error");
    message.hidden = !model.get("error");
    put(stage, model.get("markup"));
    sentence.textContent = model.get("sentence");
    const [low, high] = model.get("bounds");
    track.hidden = low === high;
    slider.min = low;
    slider.max = high;
    if (asked === null) slider.value = model.get("now");
    slider.setAttribute("aria-valuetext", model.get("sentence"));
    const [before, after, width] = model.get("margins");
    track.style.maxWidth = `${width}px`;
    track.style.gridTemplateColumns = `${before}% minmax(0, 1fr) ${after}%`;
  };
  const answered = () => {
    if (asked !== null && slider.value !== asked) {
      asked = slider.value;
      model.send({ do: "size", size: Number(asked) });
    } else {
      asked = null;
      show();
    }
  };
  const line = make("div", { class: "sv-guess-line" }, axis.label, axis.input, first.label, first.input, last.label, last.input);
  const ends = [
    disclosure(model, el, "Sweep a size", line, message, stage, track, sentence),
    watch(model, ["axes", "axis", "first", "last", "error", "markup", "sentence", "bounds", "now", "margins"], show),
    watch(model, ["answered"], answered),
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
