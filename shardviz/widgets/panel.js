// A folded part with a picture and sentences.

function render({ model, el }) {
  const lead = make("p", { class: "sv-lead", role: "status" });
  const stage = make("div", { class: "sv-stage-small" });
  const list = make("ul", { class: "sv-entries" });
  const note = make("p", { class: "sv-hint" });
  const texts = [
    [lead, "lead"],
    [note, "note"],
  ];
  const ends = [
    disclosure(model, el, model.get("title"), lead, stage, list, note),
    watch(model, ["lead", "markup", "entries", "note"], () => {
      for (const [element, name] of texts) {
        element.textContent = model.get(name);
        element.hidden = !model.get(name);
      }
      put(stage, model.get("markup"));
      list.replaceChildren(
        ...model.get("entries").map(([kind, text]) => make("li", {}, make("strong", { class: `sv-is-${kind}` }, kind), " ", make("span", {}, text))),
      );
      list.hidden = model.get("entries").length === 0;
    }),
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
