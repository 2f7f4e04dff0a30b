// Which answer is shown, runs on real ranks, and undo.

const ARROWS = { undo: "M6 3 2.5 6.5 6 10M3 6.5h6.5a4 4 0 0 1 0 8H7", redo: "M10 3l3.5 3.5L10 10M13 6.5H6.5a4 4 0 0 0 0 8H9" };

function arrow(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "sv-line-icon");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ARROWS[name]);
  svg.append(path);
  return svg;
}

function render({ model, el }) {
  el.classList.add("sv-running");
  const root = unique();
  const set = setter(model);
  const button = sender(model);

  const run = make("button", { type: "button", class: "sv-primary", onclick: () => el.dispatchEvent(new Event(RUN, { bubbles: true })) }, "Run on real ranks");
  const stop = button("Stop", () => ({ do: "stop" }), { class: "sv-secondary" });
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
  const move = (name, label, keys) =>
    make("button", {
      type: "button",
      class: "sv-icon",
      "aria-label": label,
      title: `${label} (${keys})`,
      onclick: () => model.send({ do: name }),
    }, arrow(name));
  const undo = move("undo", "Undo", "Ctrl+Z");
  const redo = move("redo", "Redo", "Ctrl+Shift+Z");
  const start = make(
    "div",
    { class: "sv-run" },
    make("span", { class: "sv-history", role: "group", "aria-label": "Changes" }, undo, redo),
    run,
    stop,
  );
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
  for (const part of [start, failure, answer, whose]) el.append(keepKeys(part));

  // Anywhere in the explorer, but for fields: they have an undo of their own, and a notebook around them would take the keys.
  const keys = (event) => {
    const inside = el.closest(".shardviz-explorer")?.contains(event.target);
    if (!inside || event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    event.stopPropagation();
    if (event.target.matches("input[type=text], textarea")) return;
    event.preventDefault();
    model.send({ do: event.shiftKey ? "redo" : "undo" });
  };
  document.addEventListener("keydown", keys, true);

  const showAnswer = () => {
    for (const [input] of answers) input.checked = input.value === model.get("answer");
    for (const [input] of stories) input.checked = input.value === model.get("story");
    whose.hidden = model.get("stories").length < 2;
    source.textContent = model.get("source");
    hint.textContent = model.get("hint");
    hint.hidden = !model.get("hint");
  };
  const showRun = () => {
    const busy = model.get("busy");
    const [here, gone] = busy ? [stop, run] : [run, stop];
    here.hidden = false;
    hide(gone, true, here);
    rest(run, Object.keys(model.get("errors")).length > 0);
    bars.hidden = !busy;
    bars.value = model.get("fraction");
    progress.textContent = model.get("progress");
    failureText.textContent = model.get("failure");
    hide(failure, !model.get("failure"), here);
  };
  const showHistory = () => {
    rest(undo, !model.get("can_undo"));
    rest(redo, !model.get("can_redo"));
  };
  const ends = [
    watch(model, ["answer", "story", "stories", "source", "hint"], showAnswer),
    watch(model, ["busy", "progress", "fraction", "failure", "errors"], showRun),
    watch(model, ["can_undo", "can_redo"], showHistory),
    () => document.removeEventListener("keydown", keys, true),
  ];
  return () => ends.forEach((end) => end());
}

export default { render };
