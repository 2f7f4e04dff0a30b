// The controls of the explorer: a view of traits. What they mean is decided in Python.

const TYPING_MS = 250;
const FIELDS = [
  ["name", "Name", "text"],
  ["size", "Size", "text"],
  ["placement", "Placement", "text"],
];

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// An input with its label and the place of its message. What is being typed is never overwritten.
class Field {
  constructor(id, label, attributes, changed, control = null) {
    this.input = control ?? make("input", { spellcheck: "false", autocomplete: "off", ...attributes });
    this.input.id = id;
    this.input.setAttribute("aria-describedby", `${id}-message`);
    this.label = make("label", { for: id }, label);
    this.message = make("p", { class: "sv-message", id: `${id}-message`, "aria-live": "polite", hidden: true });
    let timer = 0;
    const commit = () => {
      clearTimeout(timer);
      timer = 0;
      changed(this.input.value);
    };
    this.input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(commit, TYPING_MS);
    });
    this.input.addEventListener("change", commit);
    this.pending = () => timer !== 0;
  }

  show(value, message) {
    const typing = this.input === document.activeElement && this.input.tagName === "INPUT";
    if (!typing && !this.pending() && this.input.value !== value) this.input.value = value;
    this.complain(message);
  }

  complain(message) {
    this.input.setAttribute("aria-invalid", message ? "true" : "false");
    this.message.hidden = !message;
    if (this.message.textContent !== (message ?? "")) this.message.textContent = message ?? "";
  }
}

function render({ model, el }) {
  el.classList.add("sv-controls");
  const root = `sv-${Math.random().toString(36).slice(2, 9)}`;
  const set = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
  const button = (text, action, attributes = {}) =>
    make("button", { type: "button", onclick: () => model.send(action()), ...attributes }, text);

  // The question as one line, and the button that puts it to real ranks.
  const notation = new Field(`${root}-notation`, "Spec", { type: "text", class: "sv-mono" }, (v) => set("notation", v));
  const run = button("Run on real ranks", () => ({ do: "run" }), { class: "sv-primary" });
  const stop = button("Stop", () => ({ do: "stop" }), { class: "sv-secondary" });
  const bar = make(
    "div",
    { class: "sv-bar" },
    make("div", { class: "sv-spec" }, notation.label, notation.input, notation.message),
    make("div", { class: "sv-run" }, run, stop),
  );

  // The same question as fields.
  const shape = new Field(`${root}-shape`, "Tensor shape", { type: "text", class: "sv-mono" }, (v) => set("shape", v));
  const listId = `${root}-placements`;
  const list = make("datalist", { id: listId });
  const table = make("div", { class: "sv-rows", role: "group", "aria-label": "Mesh dimensions" });
  const meshMessage = make("p", { class: "sv-message", "aria-live": "polite", hidden: true });
  const size = make("span", { class: "sv-hint" });
  const add = button("+ Mesh dimension", () => ({ do: "add" }), { class: "sv-quiet", "aria-label": "Add mesh dimension" });
  const choice = make("select");
  const reading = new Field(`${root}-reading`, "Reading", {}, (v) => set("reading", v), choice);
  const note = make("p", { class: "sv-note", "aria-live": "polite" });
  const verdict = make("p", { class: "sv-verdict" });
  const differences = make("ul", { class: "sv-differences", tabindex: "0", "aria-label": "Disagreements" });
  const form = make(
    "section",
    { class: "sv-form", "aria-label": "Tensor and mesh" },
    make("div", { class: "sv-line" }, shape.label, shape.input),
    shape.message,
    table,
    list,
    meshMessage,
    make("div", { class: "sv-line sv-under" }, add, size),
    make("div", { class: "sv-line" }, reading.label, choice),
    reading.message,
    note,
    make("div", { class: "sv-outcome", role: "status" }, verdict, differences),
  );

  // Which answer is shown, and where it comes from.
  const radio = (name, value, text) => {
    const input = make("input", { type: "radio", name: `${root}-${name}`, value, onchange: () => set(name, value) });
    return [input, make("label", {}, input, make("span", {}, text))];
  };
  const answers = [radio("answer", "predicted", "Predicted"), radio("answer", "real", "Real")];
  const stories = [radio("story", "shardviz", "shardviz"), radio("story", "torch", "torch")];
  const segment = (label, options) =>
    make("div", { class: "sv-segment", role: "radiogroup", "aria-label": label }, ...options.map(([, element]) => element));
  const whose = make("div", { class: "sv-whose" }, "Reconstruction by", segment("Reconstruction by", stories));
  const source = make("span", { class: "sv-source", role: "status" });
  const bars = make("progress", { max: "1", "aria-label": "Progress of the run" });
  const progress = make("span", { class: "sv-progress", role: "status" });
  const hint = make("span", { class: "sv-hint" });
  const answer = make(
    "div",
    { class: "sv-answer" },
    segment("Answer", answers),
    source,
    hint,
    make("span", { class: "sv-working" }, bars, progress),
  );

  const failureText = make("pre");
  const failure = make(
    "div",
    { class: "sv-failure", role: "alert" },
    failureText,
    button("Dismiss", () => ({ do: "dismiss" }), { class: "sv-secondary" }),
  );
  for (const part of [bar, failure, form, answer, whose]) {
    part.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && event.key !== "Escape") event.stopPropagation(); // JupyterLab would act on it
    });
    el.append(part);
  }

  // One line per mesh dimension; the lines stay when only their texts change, and with them the cursor.
  let rows = [];
  const edit = (number, name, value) =>
    set("rows", model.get("rows").map((row, place) => (place === number ? { ...row, [name]: value } : row)));
  const makeRow = (number) => {
    const fields = Object.fromEntries(
      FIELDS.map(([name, label, type]) => {
        const attributes = { type, class: `sv-mono sv-${name}`, list: name === "placement" && listId };
        if (name === "size") attributes.inputmode = "numeric";
        const spoken = `${label} of mesh dimension ${number + 1}`;
        const field = new Field(`${root}-${name}-${number}`, label, attributes, (value) => edit(number, name, value));
        field.input.setAttribute("aria-label", spoken);
        field.label.setAttribute("aria-hidden", "true");
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
    reading.show(model.get("reading"), errors.reading);
    if (given.length !== rows.length) buildRows(given.length);
    given.forEach((row, number) => {
      for (const [name] of FIELDS) rows[number].fields[name].show(row[name], errors[`${name}:${number}`]);
      rows[number].remove.disabled = given.length === 1;
    });
    meshMessage.hidden = !errors.mesh;
    meshMessage.textContent = errors.mesh ?? "";
    run.disabled = model.get("busy") || Object.keys(errors).length > 0;
  };
  const showChoices = () => {
    choice.replaceChildren(...model.get("readings").map((name) => make("option", { value: name }, name)));
    choice.value = model.get("reading");
    list.replaceChildren(...model.get("suggestions").map((value) => make("option", { value })));
  };
  const showWords = () => {
    size.textContent = model.get("size");
    note.textContent = model.get("note");
    note.hidden = !model.get("note");
    source.textContent = model.get("source");
    hint.textContent = model.get("hint");
    hint.hidden = !model.get("hint");
    const found = model.get("differences");
    verdict.textContent = model.get("verdict");
    verdict.classList.toggle("sv-bad", found.length > 0);
    differences.replaceChildren(...found.map((sentence) => make("li", {}, sentence)));
    differences.hidden = found.length === 0;
  };
  const showAnswer = () => {
    for (const [input] of answers) input.checked = input.value === model.get("answer");
    for (const [input] of stories) input.checked = input.value === model.get("story");
    whose.hidden = model.get("stories").length < 2;
  };
  const showRun = () => {
    const busy = model.get("busy");
    stop.hidden = !busy;
    run.hidden = busy;
    run.disabled = busy || Object.keys(model.get("errors")).length > 0;
    bars.hidden = !busy;
    bars.value = model.get("fraction");
    progress.textContent = model.get("progress");
    failureText.textContent = model.get("failure");
    failure.hidden = !model.get("failure");
  };

  const watch = (names, show) => {
    for (const name of names) model.on(`change:${name}`, show);
    show();
    return () => names.forEach((name) => model.off(`change:${name}`, show));
  };
  const ends = [
    watch(["readings", "suggestions"], showChoices),
    watch(["notation", "shape", "rows", "errors", "reading"], showFields),
    watch(["size", "note", "source", "hint", "verdict", "differences"], showWords),
    watch(["answer", "story", "stories"], showAnswer),
    watch(["busy", "progress", "fraction", "failure"], showRun),
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
