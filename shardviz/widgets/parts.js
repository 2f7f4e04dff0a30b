// What the views of the explorer share; it is put before each of them. A view shows traits; what they mean is decided in Python.

const TYPING_MS = 250;
const RUN = "shardviz-run";

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function unique() {
  return `sv-${Math.random().toString(36).slice(2, 9)}`;
}

// JupyterLab would act on keys that are typed here.
function keepKeys(element) {
  element.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && event.key !== "Escape") event.stopPropagation();
  });
  return element;
}

function setter(model) {
  return (name, value) => {
    model.set(name, value);
    model.save_changes();
  };
}

function sender(model) {
  return (text, action, attributes = {}) =>
    make("button", { type: "button", onclick: () => model.send(action()), ...attributes }, text);
}

// Whoever uses the keyboard keeps the place: a button that has nothing to do now can still be focused, and one that goes away hands
// the focus on.
function rest(button, idle) {
  button.setAttribute("aria-disabled", idle ? "true" : "false");
}

function hide(element, hidden, heir) {
  const held = element.contains(document.activeElement);
  element.hidden = hidden;
  if (hidden && held) heir.focus();
}

function watch(model, names, show) {
  for (const name of names) model.on(`change:${name}`, show);
  show();
  return () => names.forEach((name) => model.off(`change:${name}`, show));
}

// A picture that the kernel drew.
function put(stage, markup) {
  if (stage.shown === markup) return;
  stage.shown = markup;
  stage.innerHTML = markup;
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
    this.commit = () => timer && commit();
    this.input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(commit, TYPING_MS);
    });
    this.input.addEventListener("change", commit);
    this.input.addEventListener("blur", this.commit); // typed, and then typed back: there is no change
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

  get line() {
    return make("div", { class: "sv-line" }, this.label, this.input);
  }
}

// Options in groups; the element stays when they change, and with it the focus.
function fill(select, groups, value) {
  const written = JSON.stringify(groups);
  if (select.dataset.written !== written) {
    select.dataset.written = written;
    select.replaceChildren(
      ...groups.map(([label, options]) => {
        const made = options.map(([name, text]) => make("option", { value: name }, text));
        return label ? make("optgroup", { label }, ...made) : made;
      }).flat(),
    );
  }
  select.value = value;
}

// A part that is folded until somebody asks for it; the kernel is told, and then fills it.
function disclosure(model, el, title, ...children) {
  el.classList.add("sv-fold");
  const details = make("details", { class: "sv-panel" }, make("summary", {}, title), make("div", { class: "sv-body" }, ...children));
  details.addEventListener("toggle", () => {
    if (details.open !== model.get("unfolded")) setter(model)("unfolded", details.open);
  });
  el.append(keepKeys(details));
  return watch(model, ["unfolded"], () => {
    details.open = model.get("unfolded");
  });
}
