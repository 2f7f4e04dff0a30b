// The player of a story. Pictures that are here are shown at once; the others come from the kernel when they are looked at.

const STEP_MS = 1600;
const ICONS = {
  first: "M4 3h2v10H4zM14 3v10L7 8z",
  back: "M11 3v10L4 8z",
  play: "M4 2.5v11L13 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M5 3v10l7-5z",
};

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

function render({ model, el }) {
  el.classList.add("sv-player");
  let timer = 0;
  let late = {};
  let shown = null;

  const last = () => model.get("names").length - 1;
  const now = () => Math.min(Math.max(model.get("step"), 0), Math.max(last(), 0));
  const go = (step) => {
    const wanted = Math.min(Math.max(step, 0), last());
    if (wanted === model.get("step")) return;
    model.set("step", wanted);
    model.save_changes();
  };
  const pause = () => {
    clearInterval(timer);
    timer = 0;
    showPlaying();
  };
  const play = () => {
    if (now() === last()) go(0);
    timer = setInterval(() => (now() < last() ? go(now() + 1) : pause()), STEP_MS);
    showPlaying();
  };
  const by = (action) => () => {
    pause();
    action();
  };

  const button = (name, label, action) =>
    make("button", { type: "button", class: "sv-icon", "aria-label": label, title: label, onclick: action }, icon(name));
  const first = button("first", "First step", by(() => go(0)));
  const back = button("back", "Back", by(() => go(now() - 1)));
  const toggle = button("play", "Play", () => (timer ? pause() : play()));
  const next = button("next", "Next", by(() => go(now() + 1)));
  const slider = make("input", {
    type: "range",
    min: "0",
    step: "1",
    "aria-label": "Step of the story",
    oninput: by(() => go(Number(slider.value))),
  });
  const count = make("span", { class: "sv-count", "aria-hidden": "true" });
  const heading = make("h3", { class: "sv-heading" });
  const steps = make("ol", { class: "sv-steps" });
  const sentence = make("p", { class: "sv-unseen", "aria-live": "polite" });
  const stage = make("div", { class: "sv-frame" });

  const keys = (event) => {
    if (!event.ctrlKey && !event.metaKey && event.key !== "Escape") event.stopPropagation(); // JupyterLab would act on it
    const moves = { ArrowLeft: now() - 1, ArrowRight: now() + 1, Home: 0, End: last() };
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    pause();
    go(moves[event.key]);
  };
  const nav = make("nav", { class: "sv-nav", "aria-label": "Steps of the story", onkeydown: keys }, heading, steps);
  const bar = make(
    "div",
    { class: "sv-transport", role: "group", "aria-label": "Story player" },
    first,
    back,
    toggle,
    next,
    slider,
    count,
  );
  const main = make("section", { class: "sv-stage", "aria-label": "Story", onkeydown: keys }, bar, sentence, stage);
  el.append(nav, main);

  function makeStep(name, kind, number) {
    const mark = make("span", { class: `sv-kind sv-${kind}`, "aria-hidden": "true" }, String(number + 1));
    const spoken = `${number + 1}. ${name}${kind === "collective" ? " (collective)" : ""}`;
    const action = by(() => go(number));
    return make("li", {}, make("button", { type: "button", "aria-label": spoken, onclick: action }, mark, name));
  }
  function showPlaying() {
    const label = timer ? "Pause" : "Play";
    toggle.replaceChildren(icon(timer ? "pause" : "play"));
    toggle.setAttribute("aria-label", label);
    toggle.title = label;
  }
  function showStep() {
    const step = now();
    const names = model.get("names");
    slider.max = String(last());
    slider.value = String(step);
    slider.setAttribute("aria-valuetext", `step ${step + 1} of ${names.length}: ${names[step] ?? ""}`);
    count.textContent = `${step + 1} / ${names.length}`;
    for (const button of [first, back]) rest(button, step === 0);
    rest(next, step === last());
    sentence.textContent = names.length ? `Step ${step + 1} of ${names.length}, ${names[step]}. ${model.get("sentences")[step]}` : "";
    [...steps.querySelectorAll("button")].forEach((item, number) =>
      item.setAttribute("aria-current", number === step ? "step" : "false"),
    );
    const markup = model.get("frames")[step] || late[step];
    if (markup && markup !== shown) {
      const before = shown && stage.querySelector("svg");
      stage.innerHTML = markup;
      shown = markup;
      travel(before, stage.querySelector("svg"));
    }
  }
  function showStory() {
    pause();
    late = {};
    heading.textContent = model.get("heading");
    const kinds = model.get("kinds");
    const names = model.get("names");
    const written = `${names}|${kinds}`;
    if (steps.dataset.written !== written) {
      steps.dataset.written = written; // the buttons stay while the steps do, and with them the focus
      steps.replaceChildren(...names.map((name, number) => makeStep(name, kinds[number], number)));
    }
    showStep();
  }
  function showLate() {
    const { story, frames } = model.get("late");
    if (story !== model.get("story")) return;
    Object.assign(late, frames);
    showStep();
  }

  model.on("change:story", showStory);
  model.on("change:step", showStep);
  model.on("change:late", showLate);
  showStory();
  showLate();
  return () => {
    pause();
    model.off("change:story", showStory);
    model.off("change:step", showStep);
    model.off("change:late", showLate);
  };
}

export default { render };
