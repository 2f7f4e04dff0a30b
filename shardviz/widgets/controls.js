// The question: the line, the fields, the examples, and what is chosen about it.

const FIELDS = [
  ["name", "Name", "text"],
  ["size", "Size", "text"],
  ["placement", "Placement", "text"],
];

function render({ model, el }) {
  el.classList.add("sv-controls");
  const root = unique();
  const set = setter(model);
  const button = sender(model);

  const notation = new Field(`${root}-notation`, "Spec", { type: "text", class: "sv-mono" }, (v) => set("notation", v));
  const bar = make("div", { class: "sv-spec" }, notation.label, notation.input, notation.message);

  const select = (name, label, changed) => new Field(`${root}-${name}`, label, {}, changed, make("select"));
  const example = select("example", "Example", (v) => v && model.send({ do: "example", key: v }));
  const shape = new Field(`${root}-shape`, "Tensor shape", { type: "text", class: "sv-mono" }, (v) => set("shape", v));
  const listId = `${root}-placements`;
  const list = make("datalist", { id: listId });
  const table = make("div", { class: "sv-rows", role: "group", "aria-label": "Mesh dimensions" });
  const meshMessage = make("p", { class: "sv-message", "aria-live": "polite", hidden: true });
  const size = make("span", { class: "sv-hint" });
  const add = button("+ Mesh dimension", () => ({ do: "add" }), { class: "sv-quiet", "aria-label": "Add mesh dimension" });
  const reading = select("reading", "Reading", (v) => set("reading", v));
  const maker = select("made_by", "Made by", (v) => set("made_by", v));
  const note = make("p", { class: "sv-note", "aria-live": "polite" });
  const method = select("method", "Unshuffle", (v) => set("method", v));
  const to = new Field(
    `${root}-to`,
    "Redistribute to",
    { type: "text", class: "sv-mono", placeholder: "the whole tensor", list: listId },
    (v) => set("to", v),
  );
  const verdict = make("p", { class: "sv-verdict" });
  const differences = make("ul", { class: "sv-differences", tabindex: "0", "aria-label": "Disagreements" });
  const methodLine = method.line;
  const form = make(
    "section",
    { class: "sv-form", "aria-label": "Tensor and mesh" },
    example.line,
    shape.line,
    shape.message,
    table,
    list,
    meshMessage,
    make("div", { class: "sv-line sv-under" }, add, size),
    reading.line,
    reading.message,
    maker.line,
    note,
    to.line,
    to.message,
    methodLine,
    method.message,
    make("div", { class: "sv-outcome", role: "status" }, verdict, differences),
  );
  el.append(keepKeys(bar), keepKeys(form));

  // What is still being typed goes first, and the run after it in the same stream.
  const run = (event) => {
    if (!el.closest(".shardviz-explorer")?.contains(event.target)) return;
    for (const field of [notation, shape, to, ...rows.flatMap(({ fields }) => Object.values(fields))]) field.commit();
    set("runs", model.get("runs") + 1);
  };
  document.addEventListener(RUN, run);

  // One line per mesh dimension; the lines stay when only their texts change, and with them the cursor.
  let rows = [];
  const edit = (number, name, value) =>
    set("rows", model.get("rows").map((row, place) => (place === number ? { ...row, [name]: value } : row)));
  const makeRow = (number) => {
    const fields = Object.fromEntries(
      FIELDS.map(([name, label, type]) => {
        const attributes = { type, class: `sv-mono sv-${name}`, list: name === "placement" && listId };
        if (name === "size") attributes.inputmode = "numeric";
        const field = new Field(`${root}-${name}-${number}`, label, attributes, (value) => edit(number, name, value));
        field.input.setAttribute("aria-label", `${label} of mesh dimension ${number + 1}`);
        return [name, field];
      }),
    );
    const remove = button("×", () => ({ do: "remove", row: number }), {
      class: "sv-remove",
      "aria-label": `Remove mesh dimension ${number + 1}`,
      title: "Remove this mesh dimension",
    });
    return { fields, remove };
  };
  const buildRows = (count) => {
    rows = Array.from({ length: count }, (_, number) => makeRow(number));
    table.replaceChildren(
      ...FIELDS.map(([, label]) => make("span", { class: "sv-head", "aria-hidden": "true" }, label)),
      make("span", { class: "sv-head" }),
      ...rows.flatMap(({ fields, remove }) => [
        ...FIELDS.map(([name]) => fields[name].input),
        remove,
        ...FIELDS.map(([name]) => fields[name].message),
      ]),
    );
  };

  const showFields = () => {
    const errors = model.get("errors");
    const given = model.get("rows");
    notation.show(model.get("notation"), errors.notation);
    shape.show(model.get("shape"), errors.shape);
    to.show(model.get("to"), errors.to);
    if (given.length !== rows.length) {
      const held = table.contains(document.activeElement);
      buildRows(given.length);
      if (held) add.focus();
    }
    given.forEach((row, number) => {
      for (const [name] of FIELDS) rows[number].fields[name].show(row[name], errors[`${name}:${number}`]);
      rest(rows[number].remove, given.length === 1);
    });
    meshMessage.hidden = !errors.mesh;
    meshMessage.textContent = errors.mesh ?? "";
    reading.complain(errors.reading);
    method.complain(errors.method);
  };
  const showChoices = () => {
    const plain = (name) => [["", model.get(name).map((value) => [value, value])]];
    fill(reading.input, plain("readings"), model.get("reading"));
    fill(method.input, plain("methods"), model.get("method"));
    fill(maker.input, plain("makers"), model.get("made_by"));
    fill(example.input, [["", [["", "choose …"]]], ...model.get("examples")], model.get("example"));
    list.replaceChildren(...model.get("suggestions").map((value) => make("option", { value })));
    methodLine.hidden = !model.get("predicting");
  };
  const showWords = () => {
    size.textContent = model.get("size");
    note.textContent = model.get("note");
    note.hidden = !model.get("note");
    const found = model.get("differences");
    verdict.textContent = model.get("verdict");
    verdict.classList.toggle("sv-bad", model.get("wrong"));
    differences.replaceChildren(...found.map((sentence) => make("li", {}, sentence)));
    differences.hidden = found.length === 0;
  };
  const ends = [
    watch(model, ["readings", "reading", "methods", "method", "makers", "made_by", "examples", "example", "suggestions", "predicting"], showChoices),
    watch(model, ["notation", "shape", "rows", "to", "errors"], showFields),
    watch(model, ["size", "note", "verdict", "wrong", "differences"], showWords),
    () => document.removeEventListener(RUN, run),
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
